-- id, tenant, channel, category, text; one more letter has that cause
INSERT INTO cause (id, tenant, channel, category, text, count) VALUES (?1, ?2, ?3, ?4, ?5, 1)
ON CONFLICT (id) DO UPDATE SET count = count + 1
