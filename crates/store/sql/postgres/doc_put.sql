-- shelf, tenant, id, rank, topic, due, updated_at, body; over whatever there is
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body)
VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8)
ON CONFLICT (shelf, tenant, id) DO UPDATE SET version = doc.version + 1, rank = excluded.rank, topic = excluded.topic,
  due = excluded.due, updated_at = excluded.updated_at, body = excluded.body
RETURNING version
