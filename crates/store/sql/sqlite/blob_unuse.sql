-- key; by blob_use_by_key
DELETE FROM blob_use WHERE key = ?1 RETURNING digest
