-- queue, rank; one seek in the primary key
SELECT due FROM ready WHERE queue = ?1 AND rank = ?2 ORDER BY due LIMIT 1
