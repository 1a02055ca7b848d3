-- id, tenant, role, label, digest, created_at
INSERT INTO api_key (id, tenant, role, label, digest, created_at)
SELECT r.id, r.tenant, r.role, r.label, r.digest, r.created_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[])
  AS r (id, tenant, role, label, digest, created_at)
