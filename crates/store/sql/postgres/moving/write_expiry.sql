-- at, key
INSERT INTO expiry (at, key)
SELECT r.at, r.key
FROM unnest($1::bigint[], $2::bigint[])
  AS r (at, key)
