-- tenant, name, before which version, how many; the newest first, by the primary key
SELECT name, version, created_at, actor, body FROM template
WHERE tenant = $1 AND name = $2 AND version < $3 ORDER BY version DESC LIMIT $4
