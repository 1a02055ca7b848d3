-- after digest, limit, bytes; primary key
SELECT digest, digest, bytes FROM (
  SELECT *, sum(octet_length(bytes)) OVER (ORDER BY digest) - octet_length(bytes) AS before
  FROM (SELECT * FROM blob WHERE digest > $1 ORDER BY digest LIMIT $2) AS few
) AS b WHERE before < $3 ORDER BY digest
