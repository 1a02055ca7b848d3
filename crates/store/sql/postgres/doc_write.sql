-- shelf, tenant, id, version, rank, topic, due, updated_at, body; whoever writes has locked those that there are
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body)
SELECT r.* FROM unnest($1::smallint[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
  $9::text[]) AS r (shelf, tenant, id, version, rank, topic, due, updated_at, body)
ON CONFLICT (shelf, tenant, id) DO UPDATE SET version = excluded.version, rank = excluded.rank, topic = excluded.topic,
  due = excluded.due, updated_at = excluded.updated_at, body = excluded.body
