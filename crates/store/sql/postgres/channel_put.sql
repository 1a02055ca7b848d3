-- names, kinds, tenants, attempts, ready; all that are configured. Nothing is written where nothing differs
INSERT INTO channel AS known (name, kind, tenant, attempts, configured, ready)
SELECT name, kind, tenant, attempts, true, ready
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bool[]) AS u (name, kind, tenant, attempts, ready)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, tenant = excluded.tenant, attempts = excluded.attempts,
  configured = true, ready = excluded.ready
WHERE (known.kind, known.tenant, known.attempts, known.configured, known.ready)
  IS DISTINCT FROM (excluded.kind, excluded.tenant, excluded.attempts, true, excluded.ready)
