-- shelf, tenant (null for everybody's), from, until, after which due and id, how many; by doc_by_due
SELECT tenant, id, version, rank, topic, due, updated_at, body FROM doc
WHERE shelf = ?1 AND (?2 IS NULL OR tenant = ?2) AND due >= ?3 AND due < ?4 AND (due, id) > (?5, ?6)
ORDER BY due, id, tenant LIMIT ?7
