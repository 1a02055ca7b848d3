-- tenant, channels, until, limit; the first of each rank of each queue by the primary key, and of these the first
SELECT w.key FROM queue q CROSS JOIN generate_series(0, 19) AS g (rank)
CROSS JOIN LATERAL (
  SELECT due, key FROM ready WHERE queue = q.id AND rank = g.rank::smallint AND due <= $3 ORDER BY due, key LIMIT $4
) w
WHERE q.tenant = $1 AND q.channel = ANY ($2::text[]) ORDER BY w.due, w.key LIMIT $4
