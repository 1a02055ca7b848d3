-- tenant, ordering key, key, active, turn
INSERT INTO ordered (tenant, ordering_key, key, active, turn) VALUES (?1, ?2, ?3, ?4, ?5)
