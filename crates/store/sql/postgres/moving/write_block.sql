-- channel, destination, body, digest
INSERT INTO block (channel, destination, body, digest)
SELECT r.channel, r.destination, r.body, r.digest
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
  AS r (channel, destination, body, digest)
