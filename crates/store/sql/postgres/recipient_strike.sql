-- tenant, campaign, how many; the first of them
DELETE FROM recipient WHERE (roster, number) IN (
  SELECT roster, number FROM recipient
  WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) ORDER BY number LIMIT $3
) RETURNING number
