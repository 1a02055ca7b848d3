-- key; a range of the primary key
SELECT batch, number, started_at, finished_at, next_due, delay FROM history WHERE key = $1 ORDER BY seq
