-- sequence, position, at, count, hash, entries
INSERT INTO audit (batch, turn, at, sequence, position, count, hash, entries)
SELECT r.sequence, r.sequence, r.at, r.sequence, r.position, r.count, r.hash, r.entries
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])
  AS r (sequence, position, at, count, hash, entries)
