-- after key, limit; row ids
SELECT key, key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, block, body
FROM message WHERE key > ?1 ORDER BY key LIMIT ?2
