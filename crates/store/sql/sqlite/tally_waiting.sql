-- what; depths by tenant, lane and channel, from what is kept for all time
SELECT tenant, detail, channel, count FROM tally WHERE hour = 0 AND what = ?1 AND count > 0 ORDER BY tenant, detail, channel
