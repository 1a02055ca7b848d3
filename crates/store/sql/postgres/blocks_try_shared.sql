-- as blocks_shared, if nobody has to be waited for
SELECT pg_try_advisory_xact_lock_shared(5795697370481229825)
