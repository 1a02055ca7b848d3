-- the hour that a week is kept under, the first of what is learnt, tenant or null; a range of the primary key
SELECT tenant, channel, what, detail, count, sum FROM tally
WHERE hour = ?1 AND what >= ?2 AND (?3 IS NULL OR tenant = ?3)
