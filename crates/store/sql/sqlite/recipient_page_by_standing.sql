-- roster, after, how many, standing
SELECT number, line, address, payload, standing, reason, message, nonce FROM recipient
WHERE roster = ?1 AND standing = ?4 AND number > ?2 ORDER BY number LIMIT ?3
