-- keys
DELETE FROM dead_letter WHERE key = ANY ($1::bigint[])
