-- adds up what was added, by hour, and what has no detail for all time as well; in the order of the rows, for others may
-- do so as well
WITH gone AS (DELETE FROM tally_added RETURNING *)
INSERT INTO tally (hour, tenant, channel, what, detail, count, sum)
SELECT h.hour, g.tenant, g.channel, g.what, g.detail, sum(g.count), sum(g.sum)
FROM gone g CROSS JOIN LATERAL (SELECT g.hour UNION SELECT 0 WHERE g.detail = '') AS h (hour)
GROUP BY h.hour, g.tenant, g.channel, g.what, g.detail ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (hour, tenant, channel, what, detail)
DO UPDATE SET count = tally.count + excluded.count, sum = tally.sum + excluded.sum
