-- roster, after, how many
SELECT number, line, address, payload, standing, reason, message, nonce FROM recipient
WHERE roster = ?1 AND number > ?2 ORDER BY number LIMIT ?3
