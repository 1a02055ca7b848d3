-- key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, block, body, slice
INSERT INTO message (key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, block, body, slice)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
