-- tenant, campaign; there is a list
INSERT INTO roster (tenant, campaign) VALUES ($1, $2) ON CONFLICT DO NOTHING
