-- digests, key of a message; those that nobody is trying are tried by that message
UPDATE block SET probe = $2 WHERE digest = ANY ($1::bytea[]) AND probe IS NULL RETURNING digest
