-- digests, keys
DELETE FROM ordered USING unnest($1::bytea[], $2::bigint[]) AS u (digest, key)
WHERE ordered.digest = u.digest AND ordered.key = u.key RETURNING ordered.digest, ordered.key, ordered.active
