-- at, key
DELETE FROM expiry USING unnest($1::bigint[], $2::bigint[]) AS u (at, key) WHERE expiry.at = u.at AND expiry.key = u.key
