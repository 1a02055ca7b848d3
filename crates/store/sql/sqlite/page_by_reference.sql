-- before, since, limit, reference; index message_by_reference
SELECT key FROM message WHERE key < ?1 AND key >= ?2 AND reference = ?4 ORDER BY key DESC LIMIT ?3
