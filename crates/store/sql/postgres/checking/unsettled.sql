-- keys, steps: those that are not settled
SELECT r.key FROM unnest($1::bigint[], $2::int[]) AS r (key, steps)
WHERE NOT EXISTS (SELECT FROM history h WHERE h.key = r.key AND h.seq = r.steps)
