-- queues, ranks, dues, keys; those that wait there, whoever is taking them
SELECT r.key FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (queue, rank, due, key)
JOIN ready r ON r.queue = u.queue AND r.rank = u.rank AND r.due = u.due AND r.key = u.key
