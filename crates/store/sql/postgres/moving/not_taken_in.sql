-- what applications asked for by SQL and no node has seen yet
SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM command)
