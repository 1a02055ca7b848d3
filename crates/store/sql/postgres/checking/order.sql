-- orders in which not exactly one message may go: the first of each
SELECT min(key) FROM ordered GROUP BY digest HAVING count(*) FILTER (WHERE active) <> 1
