-- now, limit; those that have outlasted their messages for long enough: by idempotency_by_end
DELETE FROM idempotency WHERE digest IN (
  SELECT digest FROM idempotency WHERE until <= $1 ORDER BY until, key LIMIT $2 FOR UPDATE SKIP LOCKED
) RETURNING key
