-- tenant, ordering key; primary key. Whoever is there includes an active one.
SELECT 1 FROM ordered WHERE tenant = ?1 AND ordering_key = ?2 LIMIT 1
