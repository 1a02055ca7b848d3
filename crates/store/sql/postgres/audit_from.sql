-- position, end, limit; the sealed block that holds it and those after that begin before the end, by the unique index
SELECT position, entries, count FROM audit
WHERE position >= (SELECT position FROM audit WHERE position <= $1 ORDER BY position DESC LIMIT 1) AND position < $2
ORDER BY position LIMIT $3
