-- digest, bytes; the same blob again changes nothing
INSERT INTO blob (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING
