-- the columns, in order; the audit row is the session's last
INSERT INTO history (key, started_at, finished_at, next_due, delay, seq, outcome, round, number, attempts, crashes, reason, doubtful, tenant, failure, receipt, explanation, policy, actor, keyed, reprocessed_by, batch)
SELECT r.*, (SELECT currval('audit_batch'))
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::smallint[], $8::smallint[], $9::smallint[], $10::smallint[], $11::smallint[], $12::smallint[], $13::boolean[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::smallint[], $21::text[]) r
