-- name, holder
DELETE FROM office WHERE name = $1 AND holder = $2
