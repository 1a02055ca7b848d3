-- how many; the next rows to be sealed, by audit_unsealed
SELECT batch, at, count, entries FROM audit WHERE sequence IS NULL ORDER BY turn LIMIT $1
