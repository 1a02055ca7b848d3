-- key; primary key
DELETE FROM history WHERE key = ?1
