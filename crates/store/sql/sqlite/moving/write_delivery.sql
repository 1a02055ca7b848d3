-- key, state, at, detail
INSERT INTO delivery (key, state, at, detail) VALUES (?1, ?2, ?3, ?4)
