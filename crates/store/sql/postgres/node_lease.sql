-- node, until; a lease is never shortened
INSERT INTO node (id, lease_until) SELECT r.* FROM unnest($1::bigint[], $2::bigint[]) r
ON CONFLICT (id) DO UPDATE SET lease_until = greatest(node.lease_until, excluded.lease_until)
