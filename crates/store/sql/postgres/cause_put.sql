-- ids, each once and in order, tenants, channels, categories, texts
INSERT INTO cause (id, tenant, channel, category, text)
SELECT r.* FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) r ON CONFLICT DO NOTHING
