-- behind the last message: row ids
UPDATE directory_end SET key = max(key, coalesce((SELECT max(m.key) FROM message m), 0)) RETURNING key
