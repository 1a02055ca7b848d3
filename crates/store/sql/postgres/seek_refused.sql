-- after key, limit; primary key. What could not be taken in, whosever
SELECT key, 0::bigint, tenant, jsonb_build_object('request', request, 'why', why)::text
FROM refused WHERE key > $1 ORDER BY key LIMIT $2
