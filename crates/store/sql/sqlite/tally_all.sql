-- of all time; a range of the primary key
SELECT tenant, channel, what, count FROM tally WHERE hour = 0 AND detail = '' ORDER BY tenant, channel, what
