-- tenant, ordering key, key
UPDATE ordered SET active = 1 WHERE tenant = ?1 AND ordering_key = ?2 AND key = ?3
