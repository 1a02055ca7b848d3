-- shelf, tenant, id, version (null for any); by the primary key
DELETE FROM doc WHERE shelf = $1 AND tenant = $2 AND id = $3 AND ($4 IS NULL OR version = $4) RETURNING version
