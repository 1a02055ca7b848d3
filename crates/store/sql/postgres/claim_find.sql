-- the first eight bytes of a member; the rows of the journal that may list it, oldest first. The journal is small
SELECT id, at, members FROM claim WHERE position($1 IN members) > 0 ORDER BY id
