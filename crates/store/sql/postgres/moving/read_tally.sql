-- after hour, tenant, channel and what, limit; primary key, with what is not added up yet
SELECT hour, tenant, channel, what, hour, tenant, channel, what, sum(count)::bigint
FROM (
  SELECT hour, tenant, channel, what, count FROM tally
  UNION ALL SELECT h.hour, a.tenant, a.channel, a.what, a.count
  FROM tally_added a CROSS JOIN LATERAL (VALUES (a.hour), (0)) AS h (hour)
) AS counted
WHERE (hour, tenant, channel, what) > ($1, $2, $3, $4)
GROUP BY hour, tenant, channel, what ORDER BY hour, tenant, channel, what LIMIT $5
