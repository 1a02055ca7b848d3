-- after at and key, limit; primary key
SELECT at, key, at, key FROM expiry WHERE (at, key) > (?1, ?2) ORDER BY at, key LIMIT ?3
