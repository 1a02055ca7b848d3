-- after hour, tenant, channel, what and detail, limit; primary key
SELECT hour, tenant, channel, what, detail, hour, tenant, channel, what, detail, count, sum
FROM tally WHERE (hour, tenant, channel, what, detail) > (?1, ?2, ?3, ?4, ?5)
ORDER BY hour, tenant, channel, what, detail LIMIT ?6
