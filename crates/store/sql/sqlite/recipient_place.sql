-- roster, number, standing, reason, message, nonce
UPDATE recipient SET standing = ?3, reason = ?4, message = ?5, nonce = ?6 WHERE roster = ?1 AND number = ?2
