-- before, since, limit, recipient; of those that are not in the directory: row ids
SELECT key FROM message WHERE key > max(?2 - 1, (SELECT key FROM directory_end)) AND key < ?1 AND recipient = ?4
ORDER BY key DESC LIMIT ?3
