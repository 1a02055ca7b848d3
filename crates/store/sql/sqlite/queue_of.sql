-- tenant, channel; a range of the unique index, of one tenant's queues
SELECT id FROM queue WHERE tenant = ?1 AND channel = ?2
