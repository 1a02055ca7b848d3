-- after hour, tenant, channel and what, limit; primary key
SELECT hour, tenant, channel, what, hour, tenant, channel, what, count
FROM tally WHERE (hour, tenant, channel, what) > (?1, ?2, ?3, ?4) ORDER BY hour, tenant, channel, what LIMIT ?5
