-- keys; the messages, and the last that happened to each
SELECT m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body, m.queue, m.due,
       q.tenant, q.lane, q.channel, q.destination, q.campaign,
       p.seq, p.outcome, p.round, p.attempts, p.crashes, p.doubtful, p.next_due, p.keyed, p.reason, p.finished_at, f.finished_at
FROM unnest($1::bigint[]) AS u (key)
JOIN message m ON m.key = u.key
JOIN queue q ON q.id = m.queue
LEFT JOIN LATERAL (SELECT seq, outcome, round, attempts, crashes, doubtful, next_due, keyed, reason, finished_at FROM history h WHERE h.key = u.key ORDER BY seq DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (
  SELECT finished_at FROM history WHERE p.attempts > 0 AND history.key = u.key AND history.round = p.round AND outcome = 2 ORDER BY seq LIMIT 1
) f ON true
