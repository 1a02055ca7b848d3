-- tenant, name; until the transaction ends, nobody else puts a version of it
SELECT pg_advisory_xact_lock(hashtextextended('template/' || $1 || '/' || $2, 0))
