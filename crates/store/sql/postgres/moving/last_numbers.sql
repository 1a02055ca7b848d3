-- the last queue, the last claim, the last command, the last turn in an order, the last list of recipients
SELECT coalesce((SELECT max(id) FROM queue), 0), coalesce((SELECT max(id) FROM claim), 0),
       coalesce((SELECT max(id) FROM command), 0), coalesce((SELECT max(turn) FROM ordered), 0),
       coalesce((SELECT max(id) FROM roster), 0)
