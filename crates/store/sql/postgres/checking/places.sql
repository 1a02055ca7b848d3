-- keys; whose each is, in which lane and channel
SELECT q.tenant, q.lane, q.channel FROM message m JOIN queue q ON q.id = m.queue WHERE m.key = ANY ($1::bigint[])
