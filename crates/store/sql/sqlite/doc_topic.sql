-- shelf, tenant, topic, after which rank and id, how many; by doc_by_topic
SELECT tenant, id, version, rank, topic, due, updated_at, body FROM doc
WHERE shelf = ?1 AND tenant = ?2 AND topic = ?3 AND (rank, id) < (?4, ?5) ORDER BY rank DESC, id DESC LIMIT ?6
