-- queue, rank, now, limit, first due; as claim_heads, of a rank whose messages were never tried
WITH heads AS (
  DELETE FROM ready WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM ready WHERE queue = $1 AND rank = $2 AND due BETWEEN $5 AND $3
    ORDER BY due, key LIMIT $4 FOR UPDATE SKIP LOCKED
  )) RETURNING due, key, steps
)
SELECT h.due, h.steps, m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body
FROM heads h
CROSS JOIN LATERAL (SELECT * FROM message WHERE message.key = h.key LIMIT 1) m
