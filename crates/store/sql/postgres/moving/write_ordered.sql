-- digest, key, active, turn
INSERT INTO ordered (digest, key, active, turn) OVERRIDING SYSTEM VALUE
SELECT r.digest, r.key, r.active <> 0, r.turn
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[])
  AS r (digest, key, active, turn)
