-- keys, until when each outlasts its message, if it does; by idempotency_by_key
WITH a AS (
  UPDATE idempotency SET until = r.until FROM unnest($1, $2) AS r (key, until)
  WHERE idempotency.key = r.key AND r.until IS NOT NULL
)
DELETE FROM idempotency USING unnest($1, $2) AS r (key, until) WHERE idempotency.key = r.key AND r.until IS NULL
