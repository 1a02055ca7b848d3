-- tenant, name, version; by the primary key
SELECT name, version, created_at, actor, body FROM template WHERE tenant = $1 AND name = $2 AND version = $3
