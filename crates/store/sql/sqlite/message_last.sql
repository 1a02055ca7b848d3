-- the highest key ever given out
SELECT max(key) FROM message
