-- after key, limit; primary key. What applications enqueued and nobody has taken in, whosever
SELECT key, 0::bigint, tenant, request::text FROM inbox WHERE key > $1 ORDER BY key LIMIT $2
