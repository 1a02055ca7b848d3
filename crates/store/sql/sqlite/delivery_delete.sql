-- key; primary key
DELETE FROM delivery WHERE key = ?1
