-- after shelf, tenant and id, limit; primary key
SELECT shelf, tenant, id, shelf, tenant, id, version, rank, topic, due, updated_at, body
FROM doc WHERE (shelf, tenant, id) > (?1, ?2, ?3) ORDER BY shelf, tenant, id LIMIT ?4
