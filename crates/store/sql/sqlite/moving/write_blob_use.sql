-- digest, key
INSERT INTO blob_use (digest, key) VALUES (?1, ?2)
