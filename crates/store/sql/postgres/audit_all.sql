-- sequence, limit; sealed blocks, by the unique index
SELECT sequence, position, at, count, hash, entries FROM audit WHERE sequence >= $1 ORDER BY sequence LIMIT $2
