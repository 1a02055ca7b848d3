-- keys; those that are dead letters, for us alone until the commit
SELECT key, cause FROM dead_letter WHERE key = ANY ($1::bigint[]) ORDER BY key FOR UPDATE
