-- digest, new digest
UPDATE blob_use SET digest = ?2 WHERE digest = ?1
