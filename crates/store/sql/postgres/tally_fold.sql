-- hour; counters of earlier hours, and those for all time of processes that are gone, become one row each, of slot -1
WITH gone AS (
  DELETE FROM tally WHERE slot >= 0 AND (
    hour BETWEEN 1 AND $1 - 1
    OR hour = 0 AND NOT EXISTS (
      SELECT FROM slot WHERE slot.id = tally.slot AND slot.until > extract(epoch FROM clock_timestamp()) * 1000
    )
  ) RETURNING *
)
INSERT INTO tally (hour, tenant, channel, what, slot, count)
SELECT hour, tenant, channel, what, -1, sum(count) FROM gone GROUP BY hour, tenant, channel, what
ON CONFLICT (hour, tenant, channel, what, slot) DO UPDATE SET count = tally.count + excluded.count
