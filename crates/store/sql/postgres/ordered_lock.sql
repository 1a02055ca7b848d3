-- numbers of ordering keys, sorted: nobody else touches these orders before the commit
SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) n
