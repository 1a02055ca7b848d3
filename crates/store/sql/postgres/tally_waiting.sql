-- what; depths by tenant, lane and channel, from what is kept for all time and what is not added up yet
SELECT tenant, detail, channel, sum(count)::bigint FROM (
  SELECT tenant, detail, channel, count FROM tally WHERE hour = 0 AND what = $1
  UNION ALL SELECT tenant, detail, channel, count FROM tally_added WHERE what = $1
) AS counted
GROUP BY tenant, detail, channel HAVING sum(count) > 0
ORDER BY tenant COLLATE "C", detail COLLATE "C", channel COLLATE "C"
