-- roster, number, line, address, person, payload, standing, reason, message, nonce, digest
INSERT INTO recipient (roster, number, line, address, person, payload, standing, reason, message, nonce, digest, tenant)
SELECT r.roster, r.number, r.line, r.address, r.person, r.payload, r.standing, r.reason, r.message, r.nonce, r.digest, (SELECT o.tenant FROM roster o WHERE o.id = r.roster)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::bigint[], $11::bytea[])
  AS r (roster, number, line, address, person, payload, standing, reason, message, nonce, digest)
