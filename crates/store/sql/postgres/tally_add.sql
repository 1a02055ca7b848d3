-- hours, 0 for what is kept for all time alone; tenants, channels, what, details, counts, sums
INSERT INTO tally_added (hour, tenant, channel, what, detail, count, sum)
SELECT r.* FROM unnest($1::int[], $2::text[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::bigint[]) r
