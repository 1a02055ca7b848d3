-- tenant, campaign
SELECT id FROM roster WHERE tenant = ?1 AND campaign = ?2
