-- key, version, seq, replaced_at, actor, note, body
INSERT INTO revision (key, version, seq, replaced_at, actor, note, body, tenant)
SELECT r.key, r.version, r.seq, r.replaced_at, r.actor, r.note, r.body, (SELECT m.tenant FROM message m WHERE m.key = r.key)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[])
  AS r (key, version, seq, replaced_at, actor, note, body)
