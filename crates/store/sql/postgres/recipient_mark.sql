-- messages, standings, reasons; by recipient_by_message
UPDATE recipient SET standing = r.standing, reason = r.reason
FROM unnest($1::bigint[], $2::smallint[], $3::text[]) AS r (message, standing, reason)
WHERE recipient.message = r.message AND recipient.message IS NOT NULL
