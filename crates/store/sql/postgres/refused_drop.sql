-- tenant, key
DELETE FROM refused WHERE key = $2 AND tenant = $1 RETURNING key
