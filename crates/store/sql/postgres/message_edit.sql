-- key, queue, type, template, reference, keyed hashes of recipient and reference, body
UPDATE message SET queue = $2, type = $3, template = $4, reference = $5, recipient = $6, referred = $7, body = $8 WHERE key = $1
