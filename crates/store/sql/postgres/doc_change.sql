-- shelf, tenant, id, rank, topic, due, updated_at, body, version; nothing if it has another. By the primary key
UPDATE doc SET version = version + 1, rank = $4, topic = $5, due = $6, updated_at = $7, body = $8
WHERE shelf = $1 AND tenant = $2 AND id = $3 AND version = $9 RETURNING version
