-- queue, rank, now, limit, first due; the first rows of a rank from there on that nobody else is taking are taken, and
-- come in any order
WITH heads AS (
  DELETE FROM ready WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM ready WHERE queue = $1 AND rank = $2 AND due BETWEEN $5 AND $3
    ORDER BY due, key LIMIT $4 FOR UPDATE SKIP LOCKED
  )) RETURNING due, key, steps
)
SELECT h.due, h.steps, m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body,
       p.round, p.attempts, p.crashes, p.doubtful, p.keyed, p.finished_at, f.finished_at
FROM heads h
CROSS JOIN LATERAL (SELECT * FROM message WHERE message.key = h.key LIMIT 1) m
LEFT JOIN LATERAL (SELECT * FROM history WHERE h.steps > 0 AND history.key = h.key AND seq = h.steps - 1 LIMIT 1) p ON true
LEFT JOIN LATERAL (
  SELECT finished_at FROM history WHERE p.attempts > 0 AND history.key = h.key AND history.round = p.round AND outcome = 2 ORDER BY seq LIMIT 1
) f ON true
