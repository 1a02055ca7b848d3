-- tenant, idempotency_key, key, nonce, fingerprint, digest
INSERT INTO idempotency (tenant, idempotency_key, key, nonce, fingerprint, digest)
SELECT r.tenant, r.idempotency_key, r.key, r.nonce, r.fingerprint, r.digest
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])
  AS r (tenant, idempotency_key, key, nonce, fingerprint, digest)
