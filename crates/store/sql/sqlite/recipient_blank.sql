-- tenant, campaign, number, what stands for an address
UPDATE recipient SET address = ?4, person = NULL, payload = NULL, reason = 'erased'
WHERE roster = (SELECT id FROM roster WHERE tenant = ?1 AND campaign = ?2) AND number = ?3
