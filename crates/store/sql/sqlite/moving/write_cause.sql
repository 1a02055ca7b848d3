-- id, tenant, channel, category, text, count
INSERT INTO cause (id, tenant, channel, category, text, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
