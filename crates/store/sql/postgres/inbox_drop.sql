-- tenant, key; nothing if a node is taking it in
DELETE FROM inbox WHERE key IN (SELECT key FROM inbox WHERE key = $2 AND tenant = $1 FOR UPDATE SKIP LOCKED) RETURNING key
