-- after slice and hash, limit; primary key. With when the message was sent
SELECT slice, hash, hash, key, coalesce((SELECT max(finished_at) FROM history WHERE history.key = receipt.key), 0)
FROM receipt WHERE (slice, hash) > (?1, ?2) ORDER BY slice, hash LIMIT ?3
