-- queue, what, count; so many more of its tenant, channel and lane wait
INSERT INTO tally (hour, tenant, channel, what, detail, count) SELECT 0, tenant, channel, ?2, lane, ?3 FROM queue WHERE id = ?1
ON CONFLICT (hour, tenant, channel, what, detail) DO UPDATE SET count = count + excluded.count
