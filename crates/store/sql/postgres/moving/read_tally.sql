-- after hour, tenant, channel, what and detail, limit; primary key, with what is not added up yet
SELECT hour, tenant, channel, what, detail, hour, tenant, channel, what, detail, sum(count)::bigint, sum(sum)::bigint
FROM (
  SELECT hour, tenant, channel, what, detail, count, sum FROM tally
  UNION ALL SELECT h.hour, a.tenant, a.channel, a.what, a.detail, a.count, a.sum
  FROM tally_added a CROSS JOIN LATERAL (SELECT a.hour UNION SELECT 0 WHERE a.detail = '') AS h (hour)
) AS counted
WHERE (hour, tenant, channel, what, detail) > ($1, $2, $3, $4, $5)
GROUP BY hour, tenant, channel, what, detail ORDER BY hour, tenant, channel, what, detail LIMIT $6
