-- the last block
SELECT sequence, position, count, hash FROM audit ORDER BY sequence DESC LIMIT 1
