-- batches, sequences, positions, hashes
UPDATE audit SET sequence = r.sequence, position = r.position, hash = r.hash
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS r (batch, sequence, position, hash)
WHERE audit.batch = r.batch
