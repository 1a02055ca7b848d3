-- the oldest message and the newest; one seek each in every month
SELECT min(key), max(key) FROM message
