-- after id, limit; row ids
SELECT id, id, node, at, members FROM claim WHERE id > ?1 ORDER BY id LIMIT ?2
