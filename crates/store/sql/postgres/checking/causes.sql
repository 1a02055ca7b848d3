-- causes whose count is not that of their letters
SELECT c.id FROM cause c
WHERE coalesce((SELECT sum(n.count) FROM cause_count n WHERE n.tenant = c.tenant AND n.cause = c.id), 0)
  <> (SELECT count(*) FROM dead_letter d WHERE d.cause = c.id)
UNION SELECT d.cause FROM dead_letter d WHERE NOT EXISTS (SELECT FROM cause c WHERE c.id = d.cause)
