-- queue, rank; the first entry of a range of the primary key
SELECT due, key FROM ready WHERE queue = ?1 AND rank = ?2 ORDER BY due, key LIMIT 1
