-- key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, batch, body, referred, tenant
INSERT INTO message (key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, batch, body, referred, tenant)
SELECT r.key, r.nonce, r.queue, r.priority, r.due, r.send_at, r.expires_at, r.ordering_key, r.type, r.template, r.reference, r.recipient, r.batch, r.body, r.referred, r.tenant
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bytea[], $15::bigint[], $16::text[])
  AS r (key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient, batch, body, referred, tenant)
