-- digest
DELETE FROM block WHERE digest = $1
