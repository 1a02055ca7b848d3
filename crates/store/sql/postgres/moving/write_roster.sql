-- id, tenant, campaign
INSERT INTO roster (id, tenant, campaign) OVERRIDING SYSTEM VALUE
SELECT r.id, r.tenant, r.campaign
FROM unnest($1::bigint[], $2::text[], $3::text[])
  AS r (id, tenant, campaign)
