-- now, limit; a range of the primary key
SELECT at, key FROM expiry WHERE at <= ?1 ORDER BY at, key LIMIT ?2
