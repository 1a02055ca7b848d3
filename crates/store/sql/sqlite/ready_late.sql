-- queue, rank, until, limit; how many of a range of the primary key there are, as far as the limit
SELECT count(*) FROM (SELECT 1 FROM ready WHERE queue = ?1 AND rank = ?2 AND due <= ?3 LIMIT ?4)
