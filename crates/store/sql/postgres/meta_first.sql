-- name, value; what is there already stays
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
