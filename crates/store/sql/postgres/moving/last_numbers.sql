-- the last queue, the last claim, the last command, the last turn in an order
SELECT coalesce((SELECT max(id) FROM queue), 0), coalesce((SELECT max(id) FROM claim), 0),
       coalesce((SELECT max(id) FROM command), 0), coalesce((SELECT max(turn) FROM ordered), 0)
