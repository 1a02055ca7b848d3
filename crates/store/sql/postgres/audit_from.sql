-- position, limit; the sealed block that holds it and those after, by the unique index
SELECT position, entries, count FROM audit
WHERE position >= (SELECT position FROM audit WHERE position <= $1 ORDER BY position DESC LIMIT 1) ORDER BY position LIMIT $2
