-- nobody but us changes a block, or claims by one, before the commit
SELECT pg_advisory_xact_lock(5795697370481229825)
