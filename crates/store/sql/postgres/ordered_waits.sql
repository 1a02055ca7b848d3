-- digests, keys; those that stand behind another
SELECT o.key FROM unnest($1::bytea[], $2::bigint[]) AS u (digest, key)
JOIN ordered o ON o.digest = u.digest AND o.key = u.key WHERE NOT o.active
