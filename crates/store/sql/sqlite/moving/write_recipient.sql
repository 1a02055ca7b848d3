-- roster, number, line, address, person, payload, standing, reason, message, nonce
INSERT INTO recipient (roster, number, line, address, person, payload, standing, reason, message, nonce)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
