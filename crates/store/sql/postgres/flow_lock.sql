-- digest; nothing if somebody else is sending there
SELECT next, at FROM flow WHERE digest = $1 FOR UPDATE SKIP LOCKED
