-- name, holder, for how many milliseconds; a row if the office is now the holder's. Whoever has it keeps it
WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms)
INSERT INTO office AS o (name, holder, until) SELECT $1, $2, now.ms + $3 FROM now
WHERE NOT EXISTS (SELECT FROM office WHERE name = $1 AND holder <> $2 AND until > now.ms)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE o.holder = excluded.holder OR o.until <= (SELECT ms FROM now)
RETURNING o.name
