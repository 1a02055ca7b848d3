-- id; one letter less has that cause
UPDATE cause SET count = count - 1 WHERE id = ?1
