-- messages of recipients who stand elsewhere than their messages do; messages go before recipients
SELECT key FROM (
  SELECT m.key, r.nonce = m.nonce AS mine, r.standing,
         coalesce((SELECT outcome FROM history h WHERE h.key = m.key ORDER BY seq DESC LIMIT 1), 2) AS outcome
  FROM recipient r JOIN message m ON m.key = r.message
) AS judged
WHERE NOT mine OR standing <> CASE WHEN outcome = 1 THEN 3 WHEN outcome IN (3, 11, 12) THEN 4 WHEN outcome = 10 THEN 5 ELSE 2 END
