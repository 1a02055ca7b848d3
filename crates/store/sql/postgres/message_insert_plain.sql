-- the columns, in order, of rows that have nothing in the others; the audit row is the session's last
INSERT INTO message (key, nonce, queue, priority, due, recipient, tenant, body, batch)
SELECT r.*, (SELECT currval('audit_batch'))
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[]) r
