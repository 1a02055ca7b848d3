-- after key and seq, limit; primary key
SELECT key, seq, key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, policy, actor, block, doubtful, keyed, reprocessed_by
FROM history WHERE (key, seq) > (?1, ?2) ORDER BY key, seq LIMIT ?3
