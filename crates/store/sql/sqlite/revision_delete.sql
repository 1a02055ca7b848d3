-- key; primary key
DELETE FROM revision WHERE key = ?1
