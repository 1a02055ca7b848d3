-- before, since, limit; a range of row ids
SELECT key FROM dead_letter WHERE key < ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3
