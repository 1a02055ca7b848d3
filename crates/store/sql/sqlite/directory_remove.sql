-- key; while the message is still as it was entered: row id, primary key
DELETE FROM directory WHERE (slice, recipient, key) = (SELECT m.slice, m.recipient, m.key FROM message m WHERE m.key = ?1)
