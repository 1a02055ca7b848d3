-- key, state, at, detail; primary key
INSERT OR REPLACE INTO delivery (key, state, at, detail) VALUES (?1, ?2, ?3, ?4)
