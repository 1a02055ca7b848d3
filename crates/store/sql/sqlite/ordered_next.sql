-- tenant, ordering key; primary key: the oldest
SELECT key FROM ordered WHERE tenant = ?1 AND ordering_key = ?2 ORDER BY key LIMIT 1
