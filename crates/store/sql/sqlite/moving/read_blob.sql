-- after id, limit; row ids
SELECT id, digest, bytes FROM blob WHERE id > ?1 ORDER BY id LIMIT ?2
