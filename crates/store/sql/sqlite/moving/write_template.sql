-- tenant, name, version, created_at, actor, body
INSERT INTO template (tenant, name, version, created_at, actor, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
