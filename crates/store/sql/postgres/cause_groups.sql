-- tenant, limit; a tenant's counts, with what is not added up yet, and the newest and the oldest letter of the largest by dead_letter_by_cause
SELECT c.id, c.channel, c.category, c.text, g.count, m.key, m.nonce, h.finished_at, o.finished_at
FROM (
  SELECT cause, sum(count)::bigint AS count FROM (
    SELECT cause, count FROM cause_count WHERE tenant = $1
    UNION ALL SELECT cause, count FROM cause_added WHERE tenant = $1
  ) AS counted
  GROUP BY cause HAVING sum(count) > 0 ORDER BY 2 DESC, 1 LIMIT $2
) g
CROSS JOIN LATERAL (SELECT * FROM cause WHERE cause.id = g.cause LIMIT 1) c
CROSS JOIN LATERAL (SELECT key FROM dead_letter WHERE cause = g.cause ORDER BY cause DESC, key DESC LIMIT 1) d
CROSS JOIN LATERAL (SELECT key, nonce FROM message WHERE message.key = d.key LIMIT 1) m
CROSS JOIN LATERAL (SELECT finished_at FROM history WHERE history.key = d.key ORDER BY seq DESC LIMIT 1) h
CROSS JOIN LATERAL (SELECT key FROM dead_letter WHERE cause = g.cause ORDER BY cause, key LIMIT 1) f
CROSS JOIN LATERAL (SELECT finished_at FROM history WHERE history.key = f.key ORDER BY seq DESC LIMIT 1) o
ORDER BY g.count DESC, c.id
