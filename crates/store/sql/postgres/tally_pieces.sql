-- the first hour, the one after the last, tenant or null, the first hour of each piece in order; with what is not added up yet
SELECT ($4::integer[])[width_bucket(hour, $4)], tenant, channel, what, detail, sum(count)::bigint, sum(sum)::bigint FROM (
  SELECT hour, tenant, channel, what, detail, count, sum FROM tally WHERE hour >= $1 AND hour < $2
  UNION ALL
  SELECT hour, tenant, channel, what, detail, count, sum FROM tally_added WHERE hour >= $1 AND hour < $2
) AS counted
WHERE $3::text IS NULL OR tenant = $3
GROUP BY 1, tenant, channel, what, detail
ORDER BY 1, tenant COLLATE "C", channel COLLATE "C", what, detail COLLATE "C"
