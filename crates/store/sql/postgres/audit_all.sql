-- sequence, limit, bytes; sealed blocks, by the unique index: the first, and others as long as they are within the bytes
SELECT sequence, position, at, count, hash, entries FROM (
  SELECT *, sum(octet_length(entries)) OVER (ORDER BY sequence) AS bytes
  FROM (SELECT * FROM audit WHERE sequence >= $1 ORDER BY sequence LIMIT $2) AS next
) AS piece
WHERE bytes <= $3 OR bytes = octet_length(entries)
ORDER BY sequence
