-- id, tenant, role, label, digest, created_at; the same key again changes nothing
INSERT INTO api_key (id, tenant, role, label, digest, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id
