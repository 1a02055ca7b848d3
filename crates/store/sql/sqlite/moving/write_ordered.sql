-- tenant, ordering key, key, active
INSERT INTO ordered (tenant, ordering_key, key, active) VALUES (?1, ?2, ?3, ?4)
