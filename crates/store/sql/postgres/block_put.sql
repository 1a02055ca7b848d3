-- digest, channel, destination, body
INSERT INTO block (digest, channel, destination, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (digest) DO UPDATE SET body = excluded.body
