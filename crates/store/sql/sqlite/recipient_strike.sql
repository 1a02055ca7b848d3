-- roster, how many
DELETE FROM recipient WHERE roster = ?1 AND number IN (SELECT number FROM recipient WHERE roster = ?1 ORDER BY number LIMIT ?2)
