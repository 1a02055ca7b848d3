-- every queue
SELECT id, tenant, lane, channel, destination, campaign, weight FROM queue ORDER BY id
