-- keys; the last failure of each that had any, by the primary key
SELECT asked.key, h.failure, h.seq FROM unnest($1) AS asked (key) CROSS JOIN LATERAL (
  SELECT failure, seq FROM history WHERE history.key = asked.key AND failure IS NOT NULL ORDER BY seq DESC LIMIT 1
) h
