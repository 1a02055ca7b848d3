-- queue, rank, now, limit, first due; the first rows of a rank from there on that nobody else is taking are taken, and
-- come in any order. The failure that counted first in its round is the last one if only one has.
WITH heads AS (
  DELETE FROM ready WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM ready WHERE queue = $1 AND rank = $2 AND due BETWEEN $5 AND $3
    ORDER BY due, key LIMIT $4 FOR UPDATE SKIP LOCKED
  )) RETURNING due, key, steps
)
SELECT h.due, h.steps, m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body,
       p.round, p.attempts, p.crashes, p.doubtful, p.keyed, p.finished_at, coalesce(f.finished_at, CASE WHEN p.attempts = 1 AND p.outcome = 2 THEN p.finished_at END),
       CASE WHEN p.outcome = 2 THEN p.failure END
FROM heads h
CROSS JOIN LATERAL (SELECT * FROM message WHERE message.key = h.key LIMIT 1) m
LEFT JOIN LATERAL (SELECT * FROM history WHERE h.steps > 0 AND history.key = h.key AND seq = h.steps - 1 LIMIT 1) p ON true
LEFT JOIN LATERAL (
  SELECT finished_at FROM history WHERE p.attempts > 0 AND (p.attempts > 1 OR p.outcome <> 2) AND history.key = h.key AND history.round = p.round AND outcome = 2 ORDER BY seq LIMIT 1
) f ON true
