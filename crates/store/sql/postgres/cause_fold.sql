-- counts of processes that are gone become one row each, of slot -1
WITH gone AS (
  DELETE FROM cause_count WHERE slot >= 0 AND NOT EXISTS (
    SELECT FROM slot WHERE slot.id = cause_count.slot AND slot.until > extract(epoch FROM clock_timestamp()) * 1000
  ) RETURNING *
)
INSERT INTO cause_count (tenant, cause, slot, count)
SELECT tenant, cause, -1, sum(count) FROM gone GROUP BY tenant, cause
ON CONFLICT (tenant, cause, slot) DO UPDATE SET count = cause_count.count + excluded.count
