-- at, key; primary key
DELETE FROM expiry WHERE at = ?1 AND key = ?2
