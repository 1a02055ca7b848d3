-- the columns, in order, of rows that have nothing in the others; the audit row is the session's last
INSERT INTO history (key, started_at, finished_at, seq, outcome, round, number, attempts, crashes, doubtful, tenant, receipt, keyed, batch)
SELECT r.*, (SELECT currval('audit_batch'))
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::smallint[], $6::smallint[], $7::smallint[], $8::smallint[], $9::smallint[], $10::boolean[], $11::text[], $12::text[], $13::smallint[]) r
