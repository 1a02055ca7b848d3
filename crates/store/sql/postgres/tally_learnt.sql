-- the hours that weeks are kept under, the first of what is learnt, tenant or null; with what is not added up yet
SELECT tenant, channel, what, detail, sum(count)::bigint, sum(sum)::bigint FROM (
  SELECT tenant, channel, what, detail, count, sum FROM tally WHERE hour = ANY ($1::integer[]) AND what >= $2
  UNION ALL
  SELECT tenant, channel, what, detail, count, sum FROM tally_added WHERE hour = ANY ($1::integer[]) AND what >= $2
) AS counted
WHERE $3::text IS NULL OR tenant = $3
GROUP BY tenant, channel, what, detail
