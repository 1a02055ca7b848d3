-- before, since, limit; index dead
SELECT key FROM history WHERE outcome IN (3, 11) AND key < $1 AND key >= $2 ORDER BY key DESC LIMIT $3
