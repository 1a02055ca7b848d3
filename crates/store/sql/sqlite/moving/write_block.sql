-- channel, destination, body
INSERT INTO block (channel, destination, body) VALUES (?1, coalesce(?2, ''), ?3) ON CONFLICT DO NOTHING
