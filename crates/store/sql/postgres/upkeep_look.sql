-- holder; the time, whether the office is the holder's, and for how many milliseconds it is somebody's
SELECT now.ms, coalesce(o.holder = $1, false), coalesce(o.until, 0) - now.ms
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now (ms)
LEFT JOIN office o ON o.name = 'upkeep'
