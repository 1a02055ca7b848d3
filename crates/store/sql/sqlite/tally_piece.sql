-- the first hour, the one after the last, tenant or null; what was counted in all of them
SELECT ?1, tenant, channel, what, detail, sum(count), sum(sum) FROM tally
WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR tenant = ?3)
GROUP BY tenant, channel, what, detail ORDER BY tenant, channel, what, detail
