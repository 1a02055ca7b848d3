-- digest, key
INSERT INTO blob_use (digest, key)
SELECT r.digest, r.key
FROM unnest($1::bytea[], $2::bigint[])
  AS r (digest, key)
