-- messages that are not in the directory though they should be, and what is there without them; each by its primary key
SELECT m.key FROM message m WHERE m.key <= (SELECT key FROM directory_end) AND NOT EXISTS (
  SELECT 1 FROM directory d WHERE d.slice = m.slice AND d.recipient = m.recipient AND d.key = m.key
)
UNION ALL SELECT d.key FROM directory d WHERE NOT EXISTS (
  SELECT 1 FROM message m WHERE m.key = d.key AND m.slice = d.slice AND m.recipient = d.recipient
)
