-- name
DELETE FROM meta WHERE name = ?1
