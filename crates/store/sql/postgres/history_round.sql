-- keys; since when each of them is in its round that was reprocessed, by the primary key
SELECT asked.key, h.finished_at FROM unnest($1::bigint[]) AS asked (key) CROSS JOIN LATERAL (
  SELECT finished_at FROM history WHERE history.key = asked.key AND outcome = 13 ORDER BY seq DESC LIMIT 1
) h
