-- at, key
INSERT OR IGNORE INTO expiry (at, key) VALUES (?1, ?2)
