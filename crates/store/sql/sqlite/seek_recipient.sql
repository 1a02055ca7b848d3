-- after roster, number, limit; primary key. Everybody on lists, whosever
SELECT r.roster, r.number, l.tenant, l.campaign, r.address FROM recipient r JOIN roster l ON l.id = r.roster
WHERE (r.roster, r.number) > (?1, ?2) ORDER BY r.roster, r.number LIMIT ?3
