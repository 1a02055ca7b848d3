-- digest, bytes; the same content again is kept once
INSERT INTO blob (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING
