-- sequence, position, hash: where the next block goes
UPDATE audit_tip SET sequence = $1, position = $2, hash = $3
