-- queue, rank, due, key; taken out, after whoever else is about to
DELETE FROM ready WHERE queue = $1 AND rank = $2 AND due = $3 AND key = $4 RETURNING key
