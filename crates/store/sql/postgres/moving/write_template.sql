-- tenant, name, version, created_at, actor, body
INSERT INTO template (tenant, name, version, created_at, actor, body)
SELECT r.tenant, r.name, r.version, r.created_at, r.actor, r.body
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
  AS r (tenant, name, version, created_at, actor, body)
