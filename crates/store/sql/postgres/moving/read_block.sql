-- after digest, limit; primary key
SELECT digest, channel, destination, body FROM block WHERE digest > $1 ORDER BY digest LIMIT $2
