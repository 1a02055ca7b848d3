-- messages that wait in more than one place
SELECT key FROM (SELECT key FROM ready UNION ALL SELECT key FROM ordered WHERE NOT active) AS waiting
GROUP BY key HAVING count(*) > 1
