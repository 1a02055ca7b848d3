-- campaigns: id, document, and how many recipients are pending, queued, sent, failed, cancelled, suppressed, invalid
SELECT d.id, d.body, count(*) FILTER (WHERE r.standing = 1), count(*) FILTER (WHERE r.standing = 2),
       count(*) FILTER (WHERE r.standing = 3), count(*) FILTER (WHERE r.standing = 4), count(*) FILTER (WHERE r.standing = 5),
       count(*) FILTER (WHERE r.standing = 6), count(*) FILTER (WHERE r.standing = 7)
FROM doc d LEFT JOIN roster o ON o.tenant = d.tenant AND o.campaign = d.id LEFT JOIN recipient r ON r.roster = o.id
WHERE d.shelf = 7 GROUP BY d.tenant, d.id, d.body ORDER BY d.tenant, d.id
