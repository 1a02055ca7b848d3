-- after key, limit; row id. Messages in the order of their age, whosever
SELECT m.key, m.nonce, q.tenant, q.channel, m.body, m.reference FROM message m JOIN queue q ON q.id = m.queue
WHERE m.key > ?1 ORDER BY m.key LIMIT ?2
