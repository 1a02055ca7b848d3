-- after sequence, limit; row ids
SELECT sequence, sequence, position, at, count, hash, entries FROM audit WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
