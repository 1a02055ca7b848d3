-- id, what is left of its members
UPDATE claim SET members = r.members FROM unnest($1::bigint[], $2::bytea[]) r (id, members) WHERE claim.id = r.id
