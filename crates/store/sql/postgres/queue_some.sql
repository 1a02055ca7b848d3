-- ids
SELECT id, tenant, lane, channel, destination, campaign, weight FROM queue WHERE id = ANY ($1::bigint[]) ORDER BY id
