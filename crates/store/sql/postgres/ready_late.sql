-- until, limit; for each tenant, lane and channel the earliest that is due, and how many are, as far as the limit. Of
-- campaigns nothing counts. Leaps through the primary key find the first of each queue and rank.
WITH RECURSIVE seat (queue, rank, due) AS (
  (SELECT queue, rank, due FROM ready ORDER BY queue, rank, due, key LIMIT 1)
  UNION ALL
  SELECT next.queue, next.rank, next.due FROM seat CROSS JOIN LATERAL (
    SELECT queue, rank, due FROM ready WHERE (queue, rank) > (seat.queue, seat.rank)
    ORDER BY queue, rank, due, key LIMIT 1
  ) next
), place AS MATERIALIZED (
  SELECT q.tenant, q.lane, q.channel, min(s.due) AS oldest, array_agg(s.queue) AS queues, array_agg(s.rank) AS ranks
  FROM seat s JOIN queue q ON q.id = s.queue WHERE s.due <= $1 AND q.campaign = ''
  GROUP BY q.tenant, q.lane, q.channel
)
SELECT p.tenant, p.lane, p.channel, p.oldest, (SELECT count(*) FROM (
  SELECT FROM unnest(p.queues, p.ranks) AS s (queue, rank) CROSS JOIN LATERAL (
    SELECT FROM ready r WHERE r.queue = s.queue AND r.rank = s.rank AND r.due <= $1 LIMIT $2
  ) late LIMIT $2
) seen)
FROM place p
