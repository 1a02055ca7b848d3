-- tenant, campaign, numbers, standing; those who stand there, in order. By the primary key
SELECT number FROM recipient
WHERE roster = (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2) AND number = ANY ($3::bigint[]) AND standing = $4
ORDER BY number
