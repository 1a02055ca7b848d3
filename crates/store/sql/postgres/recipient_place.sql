-- tenant, campaign, numbers, standings, reasons, messages, nonces; by the primary key
UPDATE recipient SET standing = r.standing, reason = r.reason, message = r.message, nonce = r.nonce
FROM unnest($3::bigint[], $4::smallint[], $5::text[], $6::bigint[], $7::bigint[])
  AS r (number, standing, reason, message, nonce)
WHERE recipient.roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND recipient.number = r.number
