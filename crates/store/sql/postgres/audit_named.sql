-- batches; those that are sealed, by the primary key
SELECT batch, sequence, position, count FROM audit WHERE batch = ANY ($1) AND sequence IS NOT NULL
