-- key, seq, next_due; what waits and was tried before
UPDATE history SET next_due = ?3 WHERE key = ?1 AND seq = ?2
