-- sequence, position, at, count, hash, entries
INSERT INTO audit (sequence, position, at, count, hash, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
