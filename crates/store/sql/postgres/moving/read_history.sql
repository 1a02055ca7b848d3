-- after key and seq, limit; the partitions' primary keys. An audit row that is not sealed yet is given as -1 - batch
SELECT h.key, h.seq, h.key, h.seq, h.outcome, h.round, h.number, h.attempts, h.crashes, h.started_at, h.finished_at,
       h.reason, h.next_due, h.delay, h.failure, h.receipt, h.explanation, h.policy, h.actor,
       coalesce(a.sequence, -1 - h.batch), h.doubtful, h.keyed, h.reprocessed_by
FROM (SELECT * FROM history WHERE (key, seq) > ($1, $2) ORDER BY key, seq LIMIT $3) AS h
LEFT JOIN audit a ON a.batch = h.batch ORDER BY h.key, h.seq
