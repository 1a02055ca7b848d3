-- tenant, campaign
INSERT INTO roster (tenant, campaign) VALUES (?1, ?2)
