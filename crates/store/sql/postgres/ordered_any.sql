-- digests; those that have somebody
SELECT d FROM unnest($1::bytea[]) d WHERE EXISTS (SELECT FROM ordered o WHERE o.digest = d)
