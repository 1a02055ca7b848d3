-- ids; those that no other node is at
SELECT id FROM command WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED
