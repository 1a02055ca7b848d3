-- the highest key
SELECT key FROM message ORDER BY key DESC LIMIT 1
