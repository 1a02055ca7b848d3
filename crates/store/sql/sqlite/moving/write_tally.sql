-- hour, tenant, channel, what, count
INSERT INTO tally (hour, tenant, channel, what, count) VALUES (?1, ?2, ?3, ?4, ?5)
