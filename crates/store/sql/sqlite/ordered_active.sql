-- tenant, ordering key, key; primary key
SELECT active FROM ordered WHERE tenant = ?1 AND ordering_key = ?2 AND key = ?3
