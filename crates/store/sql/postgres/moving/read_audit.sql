-- after sequence, limit, bytes; its unique index. Only what is sealed
SELECT sequence, sequence, position, at, count, hash, entries FROM (
  SELECT *, sum(octet_length(entries)) OVER (ORDER BY sequence) - octet_length(entries) AS before
  FROM (SELECT * FROM audit WHERE sequence > $1 ORDER BY sequence LIMIT $2) AS few
) AS a WHERE before < $3 ORDER BY sequence
