-- limit; what applications want done, oldest first
SELECT id, at, tenant, key, nonce, detail, actor FROM command ORDER BY id LIMIT $1
