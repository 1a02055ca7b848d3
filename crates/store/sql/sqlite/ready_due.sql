-- queue, rank, until, limit; the first of a range of the primary key
SELECT due, key FROM ready WHERE queue = ?1 AND rank = ?2 AND due <= ?3 ORDER BY due, key LIMIT ?4
