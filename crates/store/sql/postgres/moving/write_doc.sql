-- shelf, tenant, id, version, rank, topic, due, updated_at, body
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body)
SELECT r.shelf, r.tenant, r.id, r.version, r.rank, r.topic, r.due, r.updated_at, r.body
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[])
  AS r (shelf, tenant, id, version, rank, topic, due, updated_at, body)
