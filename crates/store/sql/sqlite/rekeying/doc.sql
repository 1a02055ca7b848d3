-- shelf, tenant, id, new id and body, the body that was read
UPDATE doc SET id = ?4, body = ?5 WHERE shelf = ?1 AND tenant = ?2 AND id = ?3 AND body = ?6
