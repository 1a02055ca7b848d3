-- key; the same of one message
SELECT m.key, q.tenant, q.channel, h.outcome, h.finished_at
FROM message m JOIN queue q ON q.id = m.queue
LEFT JOIN history h ON h.key = m.key AND h.seq = (SELECT max(seq) FROM history WHERE history.key = m.key)
WHERE m.key = ?1
