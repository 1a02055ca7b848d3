-- tenant, idempotency key, key, nonce, fingerprint, until
INSERT INTO idempotency (tenant, idempotency_key, key, nonce, fingerprint, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
