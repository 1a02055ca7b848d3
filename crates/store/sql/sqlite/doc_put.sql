-- shelf, tenant, id, version, rank, topic, due, updated_at, body
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (shelf, tenant, id) DO UPDATE SET version = excluded.version, rank = excluded.rank, topic = excluded.topic,
  due = excluded.due, updated_at = excluded.updated_at, body = excluded.body
