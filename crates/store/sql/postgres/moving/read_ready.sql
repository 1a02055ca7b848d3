-- after queue, rank, due and key, limit; primary key
SELECT queue, rank, due, key, queue, rank, due, key, steps
FROM ready WHERE (queue, rank, due, key) > ($1, $2, $3, $4) ORDER BY queue, rank, due, key LIMIT $5
