-- message, standing
UPDATE recipient SET standing = ?2 WHERE message = ?1
