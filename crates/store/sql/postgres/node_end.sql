-- nodes whose leases end now: they have stopped
DELETE FROM node WHERE id = ANY($1::bigint[])
