-- hour, tenant, channel, what, count; slot
INSERT INTO tally (hour, tenant, channel, what, count, slot)
SELECT r.*, $6 FROM unnest($1::int[], $2::text[], $3::text[], $4::smallint[], $5::bigint[]) r
ON CONFLICT (hour, tenant, channel, what, slot) DO UPDATE SET count = tally.count + excluded.count
