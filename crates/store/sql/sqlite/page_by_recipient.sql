-- before, since, limit, recipient, slice; index message_by_recipient
SELECT key FROM message WHERE slice = ?5 AND recipient = ?4 AND key < ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3
