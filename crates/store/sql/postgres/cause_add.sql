-- tenants, causes, how many letters more or less
INSERT INTO cause_added (tenant, cause, count) SELECT r.* FROM unnest($1::text[], $2::bigint[], $3::bigint[]) r
