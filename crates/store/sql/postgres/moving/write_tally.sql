-- hour, tenant, channel, what, count
INSERT INTO tally (hour, tenant, channel, what, count)
SELECT r.hour, r.tenant, r.channel, r.what, r.count
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
  AS r (hour, tenant, channel, what, count)
