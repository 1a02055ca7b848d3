-- tenant, lane, channel, destination, campaign
INSERT INTO queue (tenant, lane, channel, destination, campaign) VALUES (?1, ?2, ?3, ?4, ?5)
