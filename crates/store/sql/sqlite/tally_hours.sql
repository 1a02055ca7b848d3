-- the first hour, the one after the last, tenant or null; a range of the primary key
SELECT hour, tenant, channel, what, detail, count, sum FROM tally
WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR tenant = ?3) ORDER BY hour, tenant, channel, what, detail
