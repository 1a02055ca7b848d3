-- keys, rounds; of each the last attempt of the round that is followed by another, and when the first had ended, by the primary key
SELECT asked.key, h.seq, h.finished_at, h.failure, f.finished_at
FROM unnest($1::bigint[], $2::smallint[]) AS asked (key, round)
CROSS JOIN LATERAL (
  SELECT seq, finished_at, failure FROM history
  WHERE history.key = asked.key AND history.round = asked.round AND outcome = 2 ORDER BY seq DESC LIMIT 1
) h
CROSS JOIN LATERAL (
  SELECT finished_at FROM history
  WHERE history.key = asked.key AND history.round = asked.round AND outcome = 2 ORDER BY seq LIMIT 1
) f
