-- ids; how long the members are, which tells whether somebody took some
SELECT id, octet_length(members) FROM claim WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
