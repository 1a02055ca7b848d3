-- channel, destination, body
INSERT INTO block (channel, destination, body) VALUES (?1, ?2, ?3)
ON CONFLICT (channel, destination) DO UPDATE SET body = excluded.body
