-- queue, rank, due and key of the last head; a range of the primary key, deleted in one pass
DELETE FROM ready WHERE queue = ?1 AND rank = ?2 AND (due, key) <= (?3, ?4)
