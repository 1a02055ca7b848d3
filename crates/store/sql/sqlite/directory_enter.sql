-- every message that is not in the directory: row ids
INSERT INTO directory (slice, recipient, key)
SELECT slice, recipient, key FROM message WHERE key > (SELECT key FROM directory_end) ORDER BY slice, recipient, key
