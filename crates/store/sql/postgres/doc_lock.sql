-- shelves, tenants, ids; nobody else changes them before the commit. In the order of the primary key, so that of two
-- groups with the same documents one waits for the other
SELECT d.tenant, d.id, d.version, d.rank, d.topic, d.due, d.updated_at, d.body, d.shelf
FROM unnest($1::smallint[], $2::text[], $3::text[]) AS r (shelf, tenant, id)
JOIN doc d ON d.shelf = r.shelf AND d.tenant = r.tenant AND d.id = r.id
ORDER BY d.shelf, d.tenant, d.id FOR UPDATE OF d
