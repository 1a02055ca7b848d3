-- key, cause
UPDATE dead_letter SET cause = ?2 WHERE key = ?1
