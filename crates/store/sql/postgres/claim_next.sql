-- a number that no claim had
SELECT nextval('claim_id')
