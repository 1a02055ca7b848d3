-- the end of the chain, as it is written down
SELECT sequence, position, hash FROM audit_tip
