-- after roster and number, limit; primary key
SELECT roster, number, roster, number, line, address, person, payload, standing, reason, message, nonce
FROM recipient WHERE (roster, number) > (?1, ?2) ORDER BY roster, number LIMIT ?3
