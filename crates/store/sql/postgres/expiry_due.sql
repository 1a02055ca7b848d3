-- now, after (at, key), limit; nobody else is looking at them
SELECT at, key FROM expiry WHERE at <= $1 AND (at, key) > ($2, $3) ORDER BY at, key LIMIT $4 FOR UPDATE SKIP LOCKED
