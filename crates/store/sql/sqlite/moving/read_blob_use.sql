-- after digest and key, limit; primary key
SELECT digest, key, digest, key FROM blob_use WHERE (digest, key) > (?1, ?2) ORDER BY digest, key LIMIT ?3
