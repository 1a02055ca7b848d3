-- after key, limit; primary key
SELECT key, key, cause FROM dead_letter WHERE key > $1 ORDER BY key LIMIT $2
