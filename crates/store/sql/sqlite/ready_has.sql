-- queue, rank of its priority, due, key; the primary key, in either band of ranks
SELECT 1 FROM ready WHERE queue = ?1 AND rank IN (?2, ?2 + 10) AND due = ?3 AND key = ?4
