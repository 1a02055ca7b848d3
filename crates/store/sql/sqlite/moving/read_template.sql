-- after tenant, name and version, limit; primary key
SELECT tenant, name, version, tenant, name, version, created_at, actor, body
FROM template WHERE (tenant, name, version) > (?1, ?2, ?3) ORDER BY tenant, name, version LIMIT ?4
