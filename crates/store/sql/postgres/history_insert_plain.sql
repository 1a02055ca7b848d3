-- key, started_at, finished_at, tenant, receipt of first attempts that ended well; the audit row is the session's last
INSERT INTO history (key, started_at, finished_at, tenant, receipt, seq, outcome, round, number, attempts, crashes, doubtful, keyed, batch)
SELECT r.*, 0, 1, 0, 1, 1, 0, false, 0, (SELECT currval('audit_batch'))
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[]) r
