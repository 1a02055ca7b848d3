-- causes whose count is not that of their letters
SELECT c.id FROM cause c
LEFT JOIN (
  SELECT tenant, cause, sum(count) AS count
  FROM (SELECT tenant, cause, count FROM cause_count UNION ALL SELECT tenant, cause, count FROM cause_added) AS counted
  GROUP BY tenant, cause
) n ON n.tenant = c.tenant AND n.cause = c.id
WHERE coalesce(n.count, 0) <> (SELECT count(*) FROM dead_letter d WHERE d.cause = c.id)
UNION SELECT d.cause FROM dead_letter d WHERE NOT EXISTS (SELECT FROM cause c WHERE c.id = d.cause)
