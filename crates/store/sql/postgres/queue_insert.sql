-- digest, tenant, lane, channel, destination, campaign
INSERT INTO queue (digest, tenant, lane, channel, destination, campaign)
SELECT r.* FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) r ON CONFLICT DO NOTHING
