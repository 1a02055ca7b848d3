-- id
SELECT tenant, lane, channel, campaign <> '' FROM queue WHERE id = ?1
