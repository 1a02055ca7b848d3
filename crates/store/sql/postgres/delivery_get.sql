-- keys; primary key
SELECT state, at, detail, key FROM delivery WHERE key = ANY ($1)
