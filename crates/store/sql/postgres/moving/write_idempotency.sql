-- tenant, idempotency_key, key, nonce, fingerprint, until, digest
INSERT INTO idempotency (tenant, idempotency_key, key, nonce, fingerprint, until, digest)
SELECT r.tenant, r.idempotency_key, r.key, r.nonce, r.fingerprint, r.until, r.digest
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bytea[])
  AS r (tenant, idempotency_key, key, nonce, fingerprint, until, digest)
