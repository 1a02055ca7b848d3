-- hash, key, the smallest key of when it was sent; into the slice of that time. The last message that was sent under an id is the one
INSERT OR REPLACE INTO receipt (slice, hash, key)
VALUES (coalesce((SELECT slice FROM message WHERE key < ?3 ORDER BY key DESC LIMIT 1), 0), ?1, ?2)
