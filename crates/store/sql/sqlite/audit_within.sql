-- position, end; the block that holds it and those after that begin before the end: index audit_by_position
SELECT position, entries FROM audit
WHERE position >= (SELECT position FROM audit WHERE position <= ?1 ORDER BY position DESC LIMIT 1) AND position < ?2
ORDER BY position
