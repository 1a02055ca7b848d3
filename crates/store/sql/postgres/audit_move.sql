-- the new end of the chain
UPDATE audit_tip SET sequence = $1, position = $2, hash = $3
