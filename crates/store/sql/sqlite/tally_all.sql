-- of all time
SELECT tenant, channel, what, count FROM tally WHERE hour = 0 ORDER BY tenant, channel, what
