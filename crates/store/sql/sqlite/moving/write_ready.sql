-- queue, rank, due, key, steps
INSERT INTO ready (queue, rank, due, key, steps) VALUES (?1, ?2, ?3, ?4, ?5)
