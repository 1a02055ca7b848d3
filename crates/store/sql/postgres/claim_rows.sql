-- ids
SELECT id, node, at, members FROM claim WHERE id = ANY ($1::bigint[]) ORDER BY id
