-- one seek in the primary key
SELECT at FROM expiry ORDER BY at LIMIT 1
