-- before (exclusive), limit; messages from the newest on, and how the last that happened to each ended: a range of row ids,
-- and a seek in the primary key for each
SELECT m.key, q.tenant, q.channel, h.outcome, h.finished_at
FROM (SELECT key, queue FROM message WHERE key < ?1 ORDER BY key DESC LIMIT ?2) AS m
JOIN queue q ON q.id = m.queue
LEFT JOIN history h ON h.key = m.key AND h.seq = (SELECT max(seq) FROM history WHERE history.key = m.key)
ORDER BY m.key DESC
