-- the end of the chain, for whoever seals next
SELECT sequence, position, hash FROM audit_tip FOR UPDATE
