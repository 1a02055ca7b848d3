-- key, version, seq, replaced_at, actor, note, body
INSERT INTO revision (key, version, seq, replaced_at, actor, note, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
