-- holder
DELETE FROM slot WHERE holder = $1
