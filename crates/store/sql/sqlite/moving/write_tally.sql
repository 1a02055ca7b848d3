-- hour, tenant, channel, what, detail, count, sum
INSERT INTO tally (hour, tenant, channel, what, detail, count, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
