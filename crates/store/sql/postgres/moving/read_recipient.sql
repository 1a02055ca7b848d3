-- after roster and number, limit, bytes; primary key
SELECT roster, number, roster, number, line, address, person, payload, standing, reason, message, nonce FROM (
  SELECT *, sum(weight) OVER (ORDER BY roster, number) - weight AS before FROM (
    SELECT *, coalesce(octet_length(payload), 0) AS weight FROM recipient
    WHERE (roster, number) > ($1, $2) ORDER BY roster, number LIMIT $3
  ) AS few
) AS d WHERE before < $4 ORDER BY roster, number
