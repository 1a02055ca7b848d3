-- key, until when it outlasts its message; by idempotency_by_key
UPDATE idempotency SET until = ?2 WHERE key = ?1
