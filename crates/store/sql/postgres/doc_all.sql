-- shelf, how many; everybody's
SELECT tenant, id, version, rank, topic, due, updated_at, body FROM doc WHERE shelf = $1
ORDER BY rank DESC, id DESC, tenant LIMIT $2
