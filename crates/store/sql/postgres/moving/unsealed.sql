-- what is not sealed yet, in the order in which it will be
SELECT batch, at, count, entries FROM audit WHERE sequence IS NULL ORDER BY turn
