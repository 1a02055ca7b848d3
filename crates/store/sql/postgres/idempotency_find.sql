-- digests
SELECT digest, key, nonce, fingerprint FROM idempotency WHERE digest = ANY ($1::bytea[])
