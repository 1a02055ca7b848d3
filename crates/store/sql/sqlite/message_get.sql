-- key; row id
SELECT m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body, m.queue, m.due,
       q.tenant, q.lane, q.channel, q.destination, q.campaign
FROM message m JOIN queue q ON q.id = m.queue WHERE m.key = ?1
