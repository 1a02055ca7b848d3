-- positions, ends, bytes; of each piece the sealed blocks that have the bytes somewhere, from the one that holds the position
-- to those that begin before the end, by the unique index; never more blocks than records
SELECT b.position, b.entries
FROM unnest($1::bigint[], $2::bigint[]) AS piece (first, until)
CROSS JOIN LATERAL (
  SELECT position, entries FROM audit
  WHERE position >= (SELECT position FROM audit WHERE position <= piece.first ORDER BY position DESC LIMIT 1)
    AND position < piece.until AND position($3::bytea IN entries) > 0
  ORDER BY position LIMIT piece.until - piece.first + 1
) b
