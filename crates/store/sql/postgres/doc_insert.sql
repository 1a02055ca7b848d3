-- shelf, tenant, id, rank, topic, due, updated_at, body; nothing if there is one. Waits for whoever is putting it
INSERT INTO doc (shelf, tenant, id, version, rank, topic, due, updated_at, body)
VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING version
