-- adds up what was added, in the order of the rows, for others may do so as well
WITH gone AS (DELETE FROM cause_added RETURNING *)
INSERT INTO cause_count (tenant, cause, count)
SELECT tenant, cause, sum(count) FROM gone GROUP BY tenant, cause ORDER BY tenant, cause
ON CONFLICT (tenant, cause) DO UPDATE SET count = cause_count.count + excluded.count
