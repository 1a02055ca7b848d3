-- holder; whether the office is the holder's, for how many milliseconds it is somebody's, the end of the chain, and
-- whether anything is not sealed
SELECT coalesce(o.holder = $1, false),
       coalesce(o.until, 0) - (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       tip.position,
       EXISTS (SELECT FROM audit WHERE sequence IS NULL)
FROM audit_tip tip LEFT JOIN office o ON o.name = 'audit'
