-- after key, limit; letters whose cause is not known yet, with what it is made of: index dead_letter_by_cause
SELECT d.key, q.tenant, q.lane, q.channel, q.destination, q.campaign, h.reason, f.failure
FROM (SELECT key FROM dead_letter WHERE cause = 0 AND key > $1 ORDER BY cause, key LIMIT $2) d
JOIN message m ON m.key = d.key
JOIN queue q ON q.id = m.queue
CROSS JOIN LATERAL (SELECT reason FROM history WHERE history.key = d.key ORDER BY seq DESC LIMIT 1) h
LEFT JOIN LATERAL (
  SELECT failure FROM history WHERE history.key = d.key AND failure IS NOT NULL ORDER BY seq DESC LIMIT 1
) f ON true
