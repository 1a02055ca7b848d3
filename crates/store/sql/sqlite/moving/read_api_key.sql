-- after id, limit; primary key
SELECT id, id, tenant, role, label, digest, created_at FROM api_key WHERE id > ?1 ORDER BY id LIMIT ?2
