-- after id, limit; primary key
SELECT id, id, tenant, lane, channel, destination, campaign, weight
FROM queue WHERE id > $1 ORDER BY id LIMIT $2
