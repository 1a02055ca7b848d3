-- the first hour, the one after the last, tenant or null; a range of the primary key, with what is not added up yet
SELECT hour, tenant, channel, what, detail, sum(count)::bigint, sum(sum)::bigint FROM (
  SELECT hour, tenant, channel, what, detail, count, sum FROM tally WHERE hour >= $1 AND hour < $2
  UNION ALL
  SELECT hour, tenant, channel, what, detail, count, sum FROM tally_added WHERE hour >= $1 AND hour < $2
) AS counted
WHERE $3::text IS NULL OR tenant = $3
GROUP BY hour, tenant, channel, what, detail
ORDER BY hour, tenant COLLATE "C", channel COLLATE "C", what, detail COLLATE "C"
