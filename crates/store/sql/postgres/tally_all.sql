-- of all time, with what is not added up yet
SELECT tenant, channel, what, sum(count)::bigint FROM (
  SELECT tenant, channel, what, count FROM tally WHERE hour = 0 AND detail = ''
  UNION ALL SELECT tenant, channel, what, count FROM tally_added WHERE detail = ''
) AS counted
GROUP BY tenant, channel, what ORDER BY tenant COLLATE "C", channel COLLATE "C", what
