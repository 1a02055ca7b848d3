-- key
SELECT nonce FROM message WHERE key = $1
