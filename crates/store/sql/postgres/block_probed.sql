-- key of a message; its try is over
UPDATE block SET probe = NULL WHERE probe = $1
