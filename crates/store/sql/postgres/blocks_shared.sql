-- no block changes before the commit
SELECT pg_advisory_xact_lock_shared(5795697370481229825)
