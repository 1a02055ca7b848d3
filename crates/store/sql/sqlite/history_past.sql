-- key, round; the last attempt of the round that is followed by another, and when the first had ended: a range of the primary key
SELECT seq, finished_at, failure,
  (SELECT finished_at FROM history WHERE key = ?1 AND round = ?2 AND outcome = 2 ORDER BY seq LIMIT 1)
FROM history WHERE key = ?1 AND round = ?2 AND outcome = 2 ORDER BY seq DESC LIMIT 1
