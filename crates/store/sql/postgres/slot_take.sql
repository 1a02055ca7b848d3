-- holder, for how many milliseconds; the first free slot, or the one that is the holder's
WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
free AS (
  SELECT s.id FROM generate_series(0, 126) AS s (id) LEFT JOIN slot ON slot.id = s.id
  WHERE slot.id IS NULL OR slot.until <= (SELECT ms FROM now) OR slot.holder = $1
  ORDER BY slot.holder IS NOT DISTINCT FROM $1 DESC, s.id LIMIT 1
)
INSERT INTO slot (id, holder, until) SELECT free.id, $1, now.ms + $2 FROM free, now
ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE slot.until <= (SELECT ms FROM now) OR slot.holder = $1
RETURNING id
