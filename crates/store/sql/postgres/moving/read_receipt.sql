-- after slice and hash, limit; primary key. With when the message was sent
SELECT r.slice, r.hash, r.hash, r.key, coalesce((SELECT max(h.finished_at) FROM history h WHERE h.key = r.key), 0)
FROM (SELECT * FROM receipt WHERE (slice, hash) > ($1, $2) ORDER BY slice, hash LIMIT $3) AS r ORDER BY r.slice, r.hash
