-- position; the block that holds it, found by halves, and those after: row ids. Blocks may be missing
WITH RECURSIVE half (low, high) AS (
  SELECT (SELECT min(sequence) FROM audit), (SELECT max(sequence) FROM audit)
  UNION ALL
  SELECT iif(a.position <= ?1, a.sequence, low), iif(a.position <= ?1, high, high - (high - low) / 2 - 1)
  FROM half JOIN audit a ON a.sequence = (SELECT min(b.sequence) FROM audit b WHERE b.sequence >= high - (high - low) / 2)
  WHERE low < high
)
SELECT position, entries FROM audit WHERE sequence >= (SELECT low FROM half WHERE low >= high) ORDER BY sequence
