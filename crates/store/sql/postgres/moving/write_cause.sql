-- id, tenant, channel, category, text, count
WITH r AS (
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])
    AS u (id, tenant, channel, category, text, count)
), counted AS (
  INSERT INTO cause_count (tenant, cause, count) SELECT tenant, id, count FROM r WHERE count <> 0
)
INSERT INTO cause (id, tenant, channel, category, text) SELECT id, tenant, channel, category, text FROM r
