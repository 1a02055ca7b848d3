-- one row of facts: the clock, the version of the blocks, the next deadline, the end of the chain, whether the
-- inbox has something, when a campaign or a line was last changed (by doc_by_change); then the first of each queue and rank, by leaps through the primary key
WITH RECURSIVE seat (queue, rank, due) AS (
  (SELECT queue, rank, due FROM ready ORDER BY queue, rank, due, key LIMIT 1)
  UNION ALL
  SELECT next.queue, next.rank, next.due FROM seat CROSS JOIN LATERAL (
    SELECT queue, rank, due FROM ready WHERE (queue, rank) > (seat.queue, seat.rank)
    ORDER BY queue, rank, due, key LIMIT 1
  ) next
)
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT version FROM board), (SELECT at FROM expiry ORDER BY at LIMIT 1),
       (SELECT position FROM audit_tip), EXISTS (SELECT FROM inbox) OR EXISTS (SELECT FROM command),
       (SELECT updated_at FROM doc WHERE shelf IN (7, 8) ORDER BY updated_at DESC LIMIT 1)
UNION ALL
SELECT queue, rank::bigint, due, NULL, NULL, NULL FROM seat
