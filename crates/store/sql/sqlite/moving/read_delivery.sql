-- after key, limit; row ids
SELECT key, key, state, at, detail FROM delivery WHERE key > ?1 ORDER BY key LIMIT ?2
