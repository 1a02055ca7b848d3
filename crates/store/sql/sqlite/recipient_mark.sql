-- message, standing, reason
UPDATE recipient SET standing = ?2, reason = ?3 WHERE message = ?1
