-- queues, ranks and first dues of the seats that are known; one row of facts as in look, then the first of each known
-- seat from there on, and the first of one that is not known between any two of them
WITH known AS MATERIALIZED (
  SELECT queue, rank, first, coalesce(lead(queue) OVER seats, 9223372036854775807) AS next_queue, coalesce(lead(rank) OVER seats, 0::smallint) AS next_rank
  FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS k (queue, rank, first)
  WINDOW seats AS (ORDER BY queue, rank)
)
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT version FROM board), (SELECT at FROM expiry ORDER BY at LIMIT 1),
       (SELECT position FROM audit_tip), EXISTS (SELECT FROM inbox) OR EXISTS (SELECT FROM command),
       (SELECT updated_at FROM doc WHERE shelf IN (7, 8) ORDER BY updated_at DESC LIMIT 1)
UNION ALL
SELECT known.queue, known.rank::bigint, r.due, NULL, NULL, NULL FROM known CROSS JOIN LATERAL (
  SELECT due FROM ready WHERE queue = known.queue AND rank = known.rank AND due >= known.first ORDER BY due, key LIMIT 1
) r
UNION ALL
SELECT r.queue, r.rank::bigint, r.due, NULL, NULL, NULL FROM (
  SELECT queue, rank, next_queue, next_rank FROM known
  UNION ALL
  (SELECT -1, 0::smallint, queue, rank FROM known ORDER BY queue, rank LIMIT 1)
) gap CROSS JOIN LATERAL (
  SELECT queue, rank, due FROM ready
  WHERE (queue, rank) > (gap.queue, gap.rank) AND (queue, rank) < (gap.next_queue, gap.next_rank)
  ORDER BY queue, rank, due, key LIMIT 1
) r
