-- keys, steps; the messages of them that are not settled, and how far each has come
SELECT m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body, m.queue, m.due,
       q.tenant, q.lane, q.channel, q.destination, q.campaign, u.steps, p.round, p.attempts, p.crashes, p.doubtful, p.keyed, p.finished_at, f.finished_at
FROM unnest($1::bigint[], $2::int[]) AS u (key, steps)
JOIN message m ON m.key = u.key
JOIN queue q ON q.id = m.queue
LEFT JOIN history p ON p.key = u.key AND p.seq = u.steps - 1
LEFT JOIN LATERAL (
  SELECT finished_at FROM history WHERE p.attempts > 0 AND history.key = u.key AND history.round = p.round AND outcome = 2 ORDER BY seq LIMIT 1
) f ON true
WHERE NOT EXISTS (SELECT FROM history h WHERE h.key = u.key AND h.seq = u.steps)
