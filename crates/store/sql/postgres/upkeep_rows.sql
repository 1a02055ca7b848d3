-- most; how many rows each of these tables has, counted no further than that
SELECT (SELECT count(*) FROM (SELECT FROM ready LIMIT $1) AS one), (SELECT count(*) FROM (SELECT FROM ordered LIMIT $1) AS one),
       (SELECT count(*) FROM (SELECT FROM expiry LIMIT $1) AS one), (SELECT count(*) FROM (SELECT FROM inbox LIMIT $1) AS one),
       (SELECT count(*) FROM (SELECT FROM claim LIMIT $1) AS one)
