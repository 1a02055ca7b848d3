-- queue, rank, now, limit; the first rows of a rank that nobody else is taking, which are gone with this
WITH heads AS MATERIALIZED (
  SELECT ctid AS place, due, key, steps FROM ready
  WHERE queue = $1 AND rank = $2 AND due <= $3
  ORDER BY due, key LIMIT $4 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM ready WHERE ctid = ANY (ARRAY (SELECT place FROM heads))
)
SELECT h.due, h.steps, m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body,
       p.round, p.attempts, p.crashes, p.doubtful
FROM heads h
JOIN message m ON m.key = h.key
LEFT JOIN history p ON h.steps > 0 AND p.key = h.key AND p.seq = h.steps - 1
ORDER BY h.due, h.key
