-- at, count, entries
INSERT INTO audit (batch, turn, at, count, entries) VALUES (currval('audit_batch'), nextval('audit_turn'), $1, $2, $3)
