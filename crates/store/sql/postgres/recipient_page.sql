-- tenant, campaign, after, how many; by the primary key
SELECT number, line, address, payload, standing, reason, message, nonce FROM recipient
WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND number > $3 ORDER BY number LIMIT $4
