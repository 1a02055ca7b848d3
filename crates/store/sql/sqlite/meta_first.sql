-- name, value; what is there already stays
INSERT OR IGNORE INTO meta (name, value) VALUES (?1, ?2)
