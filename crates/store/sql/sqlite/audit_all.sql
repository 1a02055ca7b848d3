-- sequence, limit; a range of row ids
SELECT sequence, position, at, count, hash, entries FROM audit WHERE sequence >= ?1 ORDER BY sequence LIMIT ?2
