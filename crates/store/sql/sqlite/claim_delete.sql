-- id
DELETE FROM claim WHERE id = ?1
