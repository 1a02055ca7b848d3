-- after channel and destination, limit; primary key
SELECT channel, destination, channel, nullif(destination, ''), body
FROM block WHERE (channel, destination) > (?1, ?2) ORDER BY channel, destination LIMIT ?3
