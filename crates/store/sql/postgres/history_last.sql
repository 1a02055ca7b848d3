-- keys; for each one seek in the primary key. The key stands last.
SELECT h.* FROM unnest($1) AS asked (key) CROSS JOIN LATERAL (
  SELECT seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, coalesce(actor, reprocessed_by), policy, doubtful, keyed, key
  FROM history WHERE history.key = asked.key ORDER BY seq DESC LIMIT 1
) h
