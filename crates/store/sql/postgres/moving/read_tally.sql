-- after hour, tenant, channel and what, limit; primary key, summed over processes
SELECT hour, tenant, channel, what, hour, tenant, channel, what, sum(count)::bigint
FROM tally WHERE (hour, tenant, channel, what) > ($1, $2, $3, $4)
GROUP BY hour, tenant, channel, what ORDER BY hour, tenant, channel, what LIMIT $5
