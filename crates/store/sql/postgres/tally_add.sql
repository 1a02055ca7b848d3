-- hour; tenants, channels, what, counts
INSERT INTO tally_added (hour, tenant, channel, what, count)
SELECT $1, r.* FROM unnest($2::text[], $3::text[], $4::smallint[], $5::bigint[]) r
