-- messages, standings; by recipient_by_message
UPDATE recipient SET standing = r.standing FROM unnest($1::bigint[], $2::smallint[]) AS r (message, standing)
WHERE recipient.message = r.message AND recipient.message IS NOT NULL
