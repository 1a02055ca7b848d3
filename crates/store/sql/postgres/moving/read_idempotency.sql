-- after digest, limit; primary key
SELECT digest, tenant, idempotency_key, key, nonce, fingerprint, until
FROM idempotency WHERE digest > $1 ORDER BY digest LIMIT $2
