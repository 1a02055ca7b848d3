-- tenant, campaign, digests of what tells lines apart; those that are on the list. By recipient_by_person
SELECT digest FROM recipient
WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND digest = ANY ($3::bytea[])
  AND digest IS NOT NULL
