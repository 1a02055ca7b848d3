-- tenant, campaign, numbers, what stands for the address of each
UPDATE recipient SET address = b.address, person = NULL, digest = NULL, payload = NULL, reason = 'erased'
FROM unnest($3::bigint[], $4::text[]) AS b (number, address)
WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND recipient.number = b.number
RETURNING recipient.number
