-- messages that failed and are not among the dead letters, and the reverse
SELECT key FROM (
  SELECT m.key, coalesce((SELECT outcome FROM history h WHERE h.key = m.key ORDER BY seq DESC LIMIT 1), 2) IN (3, 11) AS dead
  FROM message m
) AS judged WHERE dead <> EXISTS (SELECT 1 FROM dead_letter d WHERE d.key = judged.key)
UNION SELECT d.key FROM dead_letter d WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.key = d.key)
