-- id, tenant, role, label, digest, created_at
INSERT INTO api_key (id, tenant, role, label, digest, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
