-- digest, next, at
UPDATE flow SET next = r.next, at = r.at FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS r (digest, next, at) WHERE flow.digest = r.digest
