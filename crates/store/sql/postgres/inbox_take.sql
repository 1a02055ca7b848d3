-- keys; taken out, but for those that another node is taking
DELETE FROM inbox WHERE key IN (SELECT key FROM inbox WHERE key = ANY ($1) FOR UPDATE SKIP LOCKED) RETURNING key
