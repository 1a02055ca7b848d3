-- queue, rank; the first of the next seat that has anything ready: one leap in the primary key. Ranks are whole numbers:
-- with > instead, every row of the seat itself would be passed on the way
SELECT queue, rank, due FROM ready WHERE (queue, rank) >= (?1, ?2 + 1) ORDER BY queue, rank, due LIMIT 1
