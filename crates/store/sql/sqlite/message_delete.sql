-- key; primary key
DELETE FROM message WHERE key = ?1
