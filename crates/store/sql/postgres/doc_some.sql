-- shelves, tenants, ids; by the primary key
SELECT d.tenant, d.id, d.version, d.rank, d.topic, d.due, d.updated_at, d.body, d.shelf
FROM unnest($1::smallint[], $2::text[], $3::text[]) AS r (shelf, tenant, id)
JOIN doc d ON d.shelf = r.shelf AND d.tenant = r.tenant AND d.id = r.id
