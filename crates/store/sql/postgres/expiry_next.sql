-- the next deadline
SELECT at FROM expiry ORDER BY at LIMIT 1
