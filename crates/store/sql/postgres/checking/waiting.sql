-- what; by tenant, lane and channel how many wait in a queue or an order, less how many were counted
SELECT tenant, lane, channel, sum(count)::bigint FROM (
  SELECT q.tenant, q.lane, q.channel, waits.count FROM queue q JOIN (
    SELECT queue, count(*) AS count FROM (
      SELECT queue FROM ready
      UNION ALL SELECT m.queue FROM ordered o JOIN message m ON m.key = o.key WHERE NOT o.active
    ) AS each GROUP BY queue
  ) AS waits ON waits.queue = q.id
  UNION ALL SELECT tenant, detail, channel, -count FROM tally WHERE hour = 0 AND what = $1
  UNION ALL SELECT tenant, detail, channel, -count FROM tally_added WHERE what = $1
) AS counted GROUP BY tenant, lane, channel
