-- digest, key, nonce, tenant, idempotency key, fingerprint, sorted by the first; those that were there first are left out
INSERT INTO idempotency (digest, key, nonce, tenant, idempotency_key, fingerprint)
SELECT r.* FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bytea[]) r ON CONFLICT DO NOTHING RETURNING digest
