-- keys, expires_at; in their new round
UPDATE message SET expires_at = r.at FROM unnest($1::bigint[], $2::bigint[]) r (key, at) WHERE message.key = r.key
