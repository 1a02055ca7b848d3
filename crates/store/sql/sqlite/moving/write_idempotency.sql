-- tenant, idempotency key, key, nonce, fingerprint
INSERT INTO idempotency (tenant, idempotency_key, key, nonce, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5)
