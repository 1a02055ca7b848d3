-- before, since, limit, cause; index dead_letter_by_cause
SELECT key FROM dead_letter WHERE cause = ?4 AND key < ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3
