-- queue, rank, due, key; primary key
DELETE FROM ready WHERE queue = ?1 AND rank = ?2 AND due = ?3 AND key = ?4
