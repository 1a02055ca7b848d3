-- queue, rank, now, limit; a range of the primary key, then each message by its row id, null if it is gone
SELECT r.due, r.steps, m.key, m.nonce, m.priority, m.send_at, m.expires_at, m.ordering_key, m.type, m.template, m.reference, m.body
FROM ready r LEFT JOIN message m ON m.key = r.key
WHERE r.queue = ?1 AND r.rank = ?2 AND r.due <= ?3
ORDER BY r.due, r.key LIMIT ?4
