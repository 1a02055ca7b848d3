-- key, version, new body, the body that was read
UPDATE revision SET body = $3 WHERE key = $1 AND version = $2 AND body = $4
