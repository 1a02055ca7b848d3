-- after id, limit; primary key
SELECT id, id, tenant, campaign FROM roster WHERE id > $1 ORDER BY id LIMIT $2
