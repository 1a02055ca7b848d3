-- before (exclusive), limit; messages from the newest on, and how the last that happened to each ended: a range of the
-- primary key, and a seek in another for each
SELECT m.key, q.tenant, q.channel, h.outcome, h.finished_at
FROM (SELECT key, queue FROM message WHERE key < $1 ORDER BY key DESC LIMIT $2) m
JOIN queue q ON q.id = m.queue
LEFT JOIN LATERAL (SELECT outcome, finished_at FROM history WHERE history.key = m.key ORDER BY seq DESC LIMIT 1) h ON true
ORDER BY m.key DESC
