-- now, limit; those that have outlasted their messages for long enough: by idempotency_by_end
DELETE FROM idempotency WHERE (tenant, idempotency_key) IN (
  SELECT tenant, idempotency_key FROM idempotency WHERE until <= ?1 ORDER BY until, key LIMIT ?2
)
