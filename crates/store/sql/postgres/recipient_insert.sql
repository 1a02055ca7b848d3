-- tenant, campaign, numbers, lines, addresses, persons, their digests, payloads, standings, reasons
INSERT INTO recipient (tenant, roster, number, line, address, person, digest, payload, standing, reason)
SELECT $1, (SELECT id FROM roster WHERE tenant = $1 AND campaign = $2), r.*
FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::smallint[], $10::text[])
  AS r (number, line, address, person, digest, payload, standing, reason)
