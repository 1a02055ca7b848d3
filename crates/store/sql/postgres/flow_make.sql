-- digest, channel, destination; there is a row to lock
INSERT INTO flow (digest, channel, destination, next, at) VALUES ($1, $2, $3, 0, 0) ON CONFLICT DO NOTHING
