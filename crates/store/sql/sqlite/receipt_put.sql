-- slice, hash, key; the last message that was sent under an id is the one
INSERT OR REPLACE INTO receipt (slice, hash, key) VALUES (?1, ?2, ?3)
