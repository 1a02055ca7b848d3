-- digest, bytes
INSERT INTO blob (digest, bytes)
SELECT r.digest, r.bytes
FROM unnest($1::bytea[], $2::bytea[])
  AS r (digest, bytes)
