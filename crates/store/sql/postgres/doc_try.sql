-- shelf, tenant, id; nothing if somebody else is changing it, or if there is none. By the primary key
SELECT tenant, id, version, rank, topic, due, updated_at, body FROM doc WHERE shelf = $1 AND tenant = $2 AND id = $3
FOR UPDATE SKIP LOCKED
