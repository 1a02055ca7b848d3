-- shelf, tenant, id; by the primary key
DELETE FROM doc WHERE shelf = ?1 AND tenant = ?2 AND id = ?3
