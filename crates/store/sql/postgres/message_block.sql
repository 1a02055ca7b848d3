-- key; primary key
SELECT nonce, tenant, batch, due, send_at FROM message WHERE key = $1
