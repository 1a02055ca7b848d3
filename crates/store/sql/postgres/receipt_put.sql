-- slices, hashes, keys; the last message that was sent under an id is the one
INSERT INTO receipt (slice, hash, key) SELECT DISTINCT ON (r.slice, r.hash) r.slice, r.hash, r.key
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY r (slice, hash, key, nth) ORDER BY r.slice, r.hash, r.nth DESC
ON CONFLICT (slice, hash) DO UPDATE SET key = excluded.key
