-- messages that are not finished and neither wait in a queue nor in an order: being sent, or lost
SELECT key FROM message
WHERE coalesce((SELECT outcome FROM history WHERE history.key = message.key ORDER BY seq DESC LIMIT 1), 2) IN (2, 4, 13)
EXCEPT SELECT key FROM ready
EXCEPT SELECT key FROM ordered WHERE active = 0
