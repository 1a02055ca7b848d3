-- roster, number
SELECT standing FROM recipient WHERE roster = ?1 AND number = ?2
