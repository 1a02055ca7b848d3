-- digest, key, active
INSERT INTO ordered (digest, key, active)
SELECT r.digest, r.key, r.active <> 0
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[])
  AS r (digest, key, active)
