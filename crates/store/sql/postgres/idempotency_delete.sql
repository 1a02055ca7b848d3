-- keys; by idempotency_by_key
DELETE FROM idempotency WHERE key = ANY ($1) RETURNING key
