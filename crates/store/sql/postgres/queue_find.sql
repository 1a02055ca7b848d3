-- digests
SELECT id, tenant, lane, channel, destination, campaign, weight FROM queue WHERE digest = ANY ($1::bytea[]) ORDER BY id
