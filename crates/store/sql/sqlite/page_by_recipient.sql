-- before, since, limit, recipient, slice; primary key
SELECT key FROM directory WHERE slice = ?5 AND recipient = ?4 AND key < ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3
