-- key, due; what waits and was never tried
UPDATE message SET due = $2 WHERE key = $1
