-- id, node, at, members
INSERT INTO claim (id, node, at, members) VALUES (?1, ?2, ?3, ?4)
