-- key; unless it is among those that are entered later: row id
INSERT INTO directory (slice, recipient, key)
SELECT slice, recipient, key FROM message WHERE key = ?1 AND key <= (SELECT key FROM directory_end)
