-- keys, causes, tenants
INSERT INTO dead_letter (key, cause, tenant) SELECT r.* FROM unnest($1::bigint[], $2::bigint[], $3::text[]) r
