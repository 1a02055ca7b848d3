-- from, to; a row if a message in between is not finished, or failed and waits for somebody; the journal lists others
SELECT WHERE EXISTS (SELECT FROM ready WHERE key >= $1 AND key < $2)
  OR EXISTS (SELECT FROM ordered WHERE key >= $1 AND key < $2)
  OR EXISTS (SELECT FROM inbox WHERE key >= $1 AND key < $2)
  OR EXISTS (SELECT FROM dead_letter WHERE key >= $1 AND key < $2)
