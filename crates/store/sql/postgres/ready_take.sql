-- queues, ranks, dues, keys; those that wait there and that nobody else is taking are taken out
WITH found AS MATERIALIZED (
  SELECT r.ctid AS place, r.key FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (queue, rank, due, key)
  JOIN ready r ON r.queue = u.queue AND r.rank = u.rank AND r.due = u.due AND r.key = u.key
  FOR UPDATE OF r SKIP LOCKED
), gone AS (
  DELETE FROM ready WHERE ctid = ANY (ARRAY (SELECT place FROM found))
)
SELECT key FROM found
