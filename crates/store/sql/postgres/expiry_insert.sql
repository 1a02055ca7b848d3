-- at, key; one that is there is touched, so that whoever is looking at it looks again
INSERT INTO expiry (at, key) SELECT DISTINCT r.* FROM unnest($1::bigint[], $2::bigint[]) r
ON CONFLICT (at, key) DO UPDATE SET at = excluded.at
