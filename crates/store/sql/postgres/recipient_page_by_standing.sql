-- tenant, campaign, after, how many, standing; by recipient_by_standing
SELECT number, line, address, payload, standing, reason, message, nonce FROM recipient
WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND standing = $5 AND number > $3
ORDER BY number LIMIT $4
