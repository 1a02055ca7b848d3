-- roster, number, line, address, person, payload, standing, reason; nothing where the person, or the line, is there already
INSERT INTO recipient (roster, number, line, address, person, payload, standing, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (roster, person) WHERE person IS NOT NULL DO NOTHING
