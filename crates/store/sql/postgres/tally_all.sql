-- of all time, over all processes
SELECT tenant, channel, what, sum(count)::bigint FROM tally WHERE hour = 0
GROUP BY tenant, channel, what ORDER BY tenant COLLATE "C", channel COLLATE "C", what
