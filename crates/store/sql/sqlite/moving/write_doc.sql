-- shelf, tenant, id, version, rank, topic, due, updated_at, body
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
