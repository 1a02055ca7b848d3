-- key; a range of the primary key. The key stands last.
SELECT seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, coalesce(actor, reprocessed_by), policy, doubtful, keyed, key
FROM history WHERE key = $1 ORDER BY seq
