-- low, high, time; where the first block of that time or later begins, by halves from one sequence to another: row ids
WITH RECURSIVE half (low, high) AS (
  SELECT ?1, ?2
  UNION ALL
  SELECT iif(a.at < ?3, a.sequence + 1, half.low), iif(a.at < ?3, half.high, a.sequence)
  FROM half JOIN audit a ON a.sequence = half.low + (half.high - half.low) / 2
  WHERE half.low < half.high
)
SELECT a.position FROM half JOIN audit a ON a.sequence = half.low WHERE half.low >= half.high AND a.sequence < ?2
