-- key, queue, type, template, reference, recipient, body
UPDATE message SET queue = ?2, type = ?3, template = ?4, reference = ?5, recipient = ?6, body = ?7 WHERE key = ?1
