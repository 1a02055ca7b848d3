-- after tenant, ordering key and key, limit; primary key
SELECT tenant, ordering_key, key, tenant, ordering_key, key, active, turn
FROM ordered WHERE (tenant, ordering_key, key) > (?1, ?2, ?3) ORDER BY tenant, ordering_key, key LIMIT ?4
