-- key; primary key
DELETE FROM dead_letter WHERE key = ?1 RETURNING cause
