-- tenant, after which name, how many; the last version of each name, by the primary key
SELECT name, version, created_at, actor, body FROM template AS it
WHERE tenant = $1 AND name > $2
  AND version = (SELECT max(version) FROM template WHERE tenant = it.tenant AND name = it.name)
ORDER BY name LIMIT $3
