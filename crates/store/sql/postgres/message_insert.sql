-- the columns, in order; the audit row is the session's last
INSERT INTO message (key, nonce, queue, priority, due, send_at, expires_at, recipient, referred, tenant, ordering_key, type, template, reference, body, batch)
SELECT r.*, (SELECT currval('audit_batch'))
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[]) r
