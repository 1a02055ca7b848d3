-- before, since, limit, keyed hash of the reference; index message_by_reference
SELECT key FROM message WHERE referred = $4 AND key < $1 AND key >= $2 ORDER BY key DESC LIMIT $3
