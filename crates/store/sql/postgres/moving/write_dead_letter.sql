-- key, cause
INSERT INTO dead_letter (key, cause, tenant)
SELECT r.key, r.cause, (SELECT m.tenant FROM message m WHERE m.key = r.key)
FROM unnest($1::bigint[], $2::bigint[])
  AS r (key, cause)
