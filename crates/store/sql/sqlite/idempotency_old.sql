-- after, before (both exclusive), limit; of messages that are there, and how the last that happened to each ended: by
-- idempotency_by_key, and a seek in the primary key for each
SELECT i.key, h.outcome, h.finished_at
FROM (SELECT key FROM idempotency WHERE key > ?1 AND key < ?2 AND until IS NULL ORDER BY key LIMIT ?3) AS i
LEFT JOIN history h ON h.key = i.key AND h.seq = (SELECT max(seq) FROM history WHERE history.key = i.key)
ORDER BY i.key
