-- digest, bytes
INSERT INTO blob (digest, bytes) VALUES (?1, ?2)
