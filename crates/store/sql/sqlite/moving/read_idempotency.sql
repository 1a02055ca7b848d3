-- after tenant and idempotency key, limit; primary key
SELECT tenant, idempotency_key, tenant, idempotency_key, key, nonce, fingerprint, until
FROM idempotency WHERE (tenant, idempotency_key) > (?1, ?2) ORDER BY tenant, idempotency_key LIMIT ?3
