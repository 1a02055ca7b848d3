-- keys; each message by the primary key, then its queue by its own
SELECT m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body, m.queue, m.due,
       q.tenant, q.lane, q.channel, q.destination, q.campaign
FROM unnest($1) AS asked (key)
CROSS JOIN LATERAL (SELECT * FROM message WHERE message.key = asked.key LIMIT 1) m
CROSS JOIN LATERAL (SELECT * FROM queue WHERE queue.id = m.queue LIMIT 1) q
