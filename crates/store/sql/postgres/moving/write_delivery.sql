-- key, state, at, detail
INSERT INTO delivery (key, state, at, detail, tenant)
SELECT r.key, r.state, r.at, r.detail, (SELECT m.tenant FROM message m WHERE m.key = r.key)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])
  AS r (key, state, at, detail)
