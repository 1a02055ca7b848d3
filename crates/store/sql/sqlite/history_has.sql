-- key, seq; primary key
SELECT 1 FROM history WHERE key = ?1 AND seq = ?2
