-- queue, rank, due, key, steps
INSERT INTO ready (queue, rank, due, key, steps)
SELECT r.queue, r.rank, r.due, r.key, r.steps
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  AS r (queue, rank, due, key, steps)
