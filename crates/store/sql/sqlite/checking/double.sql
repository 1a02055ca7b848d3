-- messages that wait in more than one place
SELECT key FROM (SELECT key FROM ready UNION ALL SELECT key FROM ordered WHERE active = 0)
GROUP BY key HAVING count(*) > 1
