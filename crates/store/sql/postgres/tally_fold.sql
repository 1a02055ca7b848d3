-- adds up what was added, by hour and for all time; in the order of the rows, for others may do so as well
WITH gone AS (DELETE FROM tally_added RETURNING *)
INSERT INTO tally (hour, tenant, channel, what, count)
SELECT coalesce(hour, 0), tenant, channel, what, sum(count) FROM gone
GROUP BY GROUPING SETS ((hour, tenant, channel, what), (tenant, channel, what)) ORDER BY 1, 2, 3, 4
ON CONFLICT (hour, tenant, channel, what) DO UPDATE SET count = tally.count + excluded.count
