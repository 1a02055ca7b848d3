-- ids
DELETE FROM claim WHERE id = ANY ($1::bigint[])
