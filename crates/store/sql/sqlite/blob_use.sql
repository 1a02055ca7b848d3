-- digest, message key
INSERT INTO blob_use (digest, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING
