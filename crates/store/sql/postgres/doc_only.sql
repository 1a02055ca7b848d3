-- shelf, tenant, id; false if somebody else is about to send by that document. It need not be there: nobody can lock a
-- row that is none
SELECT pg_try_advisory_xact_lock(hashtextextended('doc/' || $1 || '/' || $2 || '/' || $3, 0))
