-- ids
DELETE FROM command WHERE id = ANY ($1)
