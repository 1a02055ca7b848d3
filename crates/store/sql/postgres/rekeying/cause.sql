-- id, new text, the text that was read
UPDATE cause SET text = $2 WHERE id = $1 AND text = $3
