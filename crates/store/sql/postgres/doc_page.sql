-- shelf, tenant, after which rank and id, how many; by doc_by_rank
SELECT tenant, id, version, rank, topic, due, updated_at, body FROM doc
WHERE shelf = $1 AND tenant = $2 AND (rank, id) < ($3, $4) ORDER BY rank DESC, id DESC LIMIT $5
