-- key; row id
SELECT m.nonce, q.tenant, m.block, m.due, m.send_at FROM message m JOIN queue q ON q.id = m.queue WHERE m.key = ?1
