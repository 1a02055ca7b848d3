-- digest
DELETE FROM flow WHERE digest = $1
