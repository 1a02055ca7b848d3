-- after name, limit. Rows of tables that no other dialect has, as JSON
SELECT name, name, convert_to(row::text, 'UTF8') FROM (
  SELECT 'aside/inbox/' || key, to_jsonb(inbox) FROM inbox
  UNION ALL SELECT 'aside/command/' || id, to_jsonb(command) FROM command
  UNION ALL SELECT 'aside/refused/' || key, to_jsonb(refused) FROM refused
  UNION ALL SELECT 'aside/channel/' || name, to_jsonb(channel) FROM channel
  UNION ALL SELECT 'aside/app/' || role, to_jsonb(app) FROM app
) AS aside (name, row) WHERE name COLLATE "C" > $1 ORDER BY name COLLATE "C" LIMIT $2
