-- digests; the oldest of each becomes the one that goes, by ordered_by_turn
UPDATE ordered SET active = true FROM (
  SELECT f.digest, f.key FROM unnest($1::bytea[]) d
  CROSS JOIN LATERAL (SELECT digest, key FROM ordered WHERE digest = d ORDER BY turn LIMIT 1) f
) next
WHERE ordered.digest = next.digest AND ordered.key = next.key RETURNING ordered.key
