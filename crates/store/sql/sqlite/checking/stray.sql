-- what waits though its message is missing, in another queue, finished or at another step
SELECT r.key FROM ready r LEFT JOIN message m ON m.key = r.key
WHERE m.key IS NULL OR m.queue <> r.queue
   OR r.steps <> coalesce((SELECT max(seq) + 1 FROM history h WHERE h.key = r.key), 0)
   OR coalesce((SELECT outcome FROM history h WHERE h.key = r.key ORDER BY seq DESC LIMIT 1), 2) NOT IN (2, 4, 13)
