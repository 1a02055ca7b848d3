-- tenant, idempotency key; primary key
SELECT key, nonce, fingerprint FROM idempotency WHERE tenant = ?1 AND idempotency_key = ?2
