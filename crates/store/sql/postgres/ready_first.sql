-- queue, ranks, first dues; the first row of each rank, from there on, that nobody else is taking
SELECT r.rank, f.due, f.key FROM unnest($2::smallint[], $3::bigint[]) AS r (rank, first)
CROSS JOIN LATERAL (
  SELECT due, key FROM ready WHERE queue = $1 AND rank = r.rank AND due >= r.first ORDER BY due, key LIMIT 1 FOR UPDATE SKIP LOCKED
) f
