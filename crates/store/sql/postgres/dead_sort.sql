-- keys, causes
UPDATE dead_letter SET cause = r.cause FROM unnest($1::bigint[], $2::bigint[]) r (key, cause) WHERE dead_letter.key = r.key
