SELECT id, tenant, role, label, digest, created_at FROM api_key ORDER BY id COLLATE "C"
