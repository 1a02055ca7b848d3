-- tenants, causes, how many letters more or less, in the order of the rows; slot
INSERT INTO cause_count (tenant, cause, count, slot)
SELECT r.*, $4 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) r
ON CONFLICT (tenant, cause, slot) DO UPDATE SET count = cause_count.count + excluded.count
