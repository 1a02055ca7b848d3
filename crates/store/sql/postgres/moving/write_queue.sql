-- id, tenant, lane, channel, destination, campaign, weight, digest
INSERT INTO queue (id, tenant, lane, channel, destination, campaign, weight, digest) OVERRIDING SYSTEM VALUE
SELECT r.id, r.tenant, r.lane, r.channel, r.destination, r.campaign, r.weight, r.digest
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bytea[])
  AS r (id, tenant, lane, channel, destination, campaign, weight, digest)
