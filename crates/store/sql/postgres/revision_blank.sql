-- key, version, tenant, what stands for what was said
UPDATE revision SET body = $4, note = NULL WHERE key = $1 AND version = $2 AND tenant = $3 RETURNING version
