-- queue, rank, due, key, steps
INSERT INTO ready (queue, rank, due, key, steps) SELECT r.* FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::int[]) r
