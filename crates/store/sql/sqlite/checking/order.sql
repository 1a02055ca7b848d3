-- orders in which not exactly one message may go: the first of each
SELECT min(key) FROM ordered GROUP BY tenant, ordering_key HAVING sum(active) <> 1
