-- where the sealed chain ends
SELECT sequence + 1, position + count, hash FROM audit WHERE sequence IS NOT NULL ORDER BY sequence DESC LIMIT 1
