-- keys; the same of these messages
SELECT m.key, q.tenant, q.channel, h.outcome, h.finished_at
FROM unnest($1) AS asked (key)
CROSS JOIN LATERAL (SELECT key, queue FROM message WHERE message.key = asked.key LIMIT 1) m
JOIN queue q ON q.id = m.queue
LEFT JOIN LATERAL (SELECT outcome, finished_at FROM history WHERE history.key = m.key ORDER BY seq DESC LIMIT 1) h ON true
