-- hour, tenant, channel, what, detail, count, sum
INSERT INTO tally (hour, tenant, channel, what, detail, count, sum)
SELECT r.hour, r.tenant, r.channel, r.what, r.detail, r.count, r.sum
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
  AS r (hour, tenant, channel, what, detail, count, sum)
