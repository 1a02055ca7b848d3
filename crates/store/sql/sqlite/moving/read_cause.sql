-- after id, limit; row ids
SELECT id, id, tenant, channel, category, text, count FROM cause WHERE id > ?1 ORDER BY id LIMIT ?2
