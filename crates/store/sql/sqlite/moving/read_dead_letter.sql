-- after key, limit; row ids
SELECT key, key, cause FROM dead_letter WHERE key > ?1 ORDER BY key LIMIT ?2
