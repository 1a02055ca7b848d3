-- lows, highs, times; for each, in order, where the first block of that time or later begins, by halves from one sequence to
-- another: some twenty seeks in the unique index
SELECT b.position
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS sought (low, high, at, nth)
CROSS JOIN LATERAL (
  WITH RECURSIVE half (low, high) AS (
    SELECT sought.low, sought.high
    UNION ALL
    SELECT CASE WHEN m.at < sought.at THEN m.sequence + 1 ELSE half.low END,
           CASE WHEN m.at < sought.at THEN half.high ELSE m.sequence END
    FROM half CROSS JOIN LATERAL (
      SELECT sequence, at FROM audit WHERE sequence = half.low + (half.high - half.low) / 2 LIMIT 1
    ) m
    WHERE half.low < half.high
  )
  SELECT low FROM half WHERE low >= high LIMIT 1
) f
LEFT JOIN LATERAL (SELECT position FROM audit WHERE sequence = f.low AND f.low < sought.high LIMIT 1) b ON true
ORDER BY sought.nth
