-- key; primary key
SELECT state, at, detail FROM delivery WHERE key = ?1
