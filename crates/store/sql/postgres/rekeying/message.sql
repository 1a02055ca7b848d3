-- key, new body, the body that was read
UPDATE message SET body = $2 WHERE key = $1 AND body = $3
