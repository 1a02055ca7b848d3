-- queue; the next queue after it that has anything ready: one seek in the primary key
SELECT queue FROM ready WHERE queue > ?1 ORDER BY queue LIMIT 1
