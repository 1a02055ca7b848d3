-- name, value
INSERT INTO meta (name, value) VALUES (?1, ?2)
