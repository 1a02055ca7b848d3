-- digest, new digest and bytes, the bytes that were read
UPDATE blob SET digest = ?2, bytes = ?3 WHERE digest = ?1 AND bytes = ?4
