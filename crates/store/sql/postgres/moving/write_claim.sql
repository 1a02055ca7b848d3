-- id, node, at, members
INSERT INTO claim (id, node, at, members)
SELECT r.id, r.node, r.at, r.members
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])
  AS r (id, node, at, members)
