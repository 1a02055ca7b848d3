-- as blocks_exclusive, if nobody has to be waited for
SELECT pg_try_advisory_xact_lock(5795697370481229825)
