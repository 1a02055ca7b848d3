-- causes whose count is not that of their letters
SELECT c.id FROM cause c WHERE c.count <> (SELECT count(*) FROM dead_letter d WHERE d.cause = c.id)
UNION SELECT d.cause FROM dead_letter d WHERE NOT EXISTS (SELECT 1 FROM cause c WHERE c.id = d.cause)
