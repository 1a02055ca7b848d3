-- at, key
INSERT INTO expiry (at, key) VALUES (?1, ?2)
