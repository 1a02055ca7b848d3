-- key; by idempotency_by_key
DELETE FROM idempotency WHERE key = ?1
