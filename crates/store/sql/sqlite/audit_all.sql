SELECT sequence, position, at, count, hash, entries FROM audit ORDER BY sequence
