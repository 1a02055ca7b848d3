-- after key, limit; primary key of each month. Messages in the order of their age, whosever
SELECT m.key, 0::bigint, m.tenant, m.nonce, q.channel, m.body, m.reference
FROM (SELECT key, tenant, nonce, queue, body, reference FROM message WHERE key > $1 ORDER BY key LIMIT $2) m
JOIN queue q ON q.id = m.queue ORDER BY m.key
