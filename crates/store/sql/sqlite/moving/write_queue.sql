-- id, tenant, lane, channel, destination, campaign, weight
INSERT INTO queue (id, tenant, lane, channel, destination, campaign, weight) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
