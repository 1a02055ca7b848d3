-- id, tenant, campaign
INSERT INTO roster (id, tenant, campaign) VALUES (?1, ?2, ?3)
