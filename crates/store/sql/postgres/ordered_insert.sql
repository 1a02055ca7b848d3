-- digest, key, active
INSERT INTO ordered (digest, key, active) SELECT r.* FROM unnest($1::bytea[], $2::bigint[], $3::boolean[]) r
