-- what; by tenant, lane and channel how many wait in a queue or an order, less how many were counted
SELECT tenant, lane, channel, sum(count) FROM (
  SELECT tenant, lane, channel, waits.count FROM queue JOIN (
    SELECT queue, count(*) AS count FROM (
      SELECT queue FROM ready
      UNION ALL SELECT message.queue FROM ordered JOIN message ON message.key = ordered.key WHERE active = 0
    ) GROUP BY queue
  ) AS waits ON waits.queue = queue.id
  UNION ALL SELECT tenant, detail, channel, -count FROM tally WHERE hour = 0 AND what = ?1
) GROUP BY tenant, lane, channel
