-- keys, nonces, at, tenants, requests, reasons
INSERT INTO refused (key, nonce, at, tenant, request, why)
SELECT key, nonce, $3, tenant, request::jsonb, why
FROM unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::text[]) AS u (key, nonce, tenant, request, why)
