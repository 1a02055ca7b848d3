-- queue, ranks; the first row of each rank that nobody else is taking
SELECT r.rank, f.due, f.key FROM unnest($2::smallint[]) AS r (rank)
CROSS JOIN LATERAL (
  SELECT due, key FROM ready WHERE queue = $1 AND rank = r.rank ORDER BY due, key LIMIT 1 FOR UPDATE SKIP LOCKED
) f
