-- key, cause
INSERT INTO dead_letter (key, cause) VALUES (?1, ?2)
