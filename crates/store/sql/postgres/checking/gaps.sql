-- histories with a step missing
SELECT key FROM history GROUP BY key HAVING count(*) <> max(seq) + 1
