-- roster, number, new address, person and payload, the address and payload that were read
UPDATE recipient SET address = ?3, person = ?4, payload = ?5
WHERE roster = ?1 AND number = ?2 AND address = ?6 AND payload IS ?7
