-- the last audit row, queue, claim, command, turn in an order and list of recipients; numbers go on after them
SELECT setval('audit_batch', $1 + 1), setval('audit_turn', $1 + 1), setval(pg_get_serial_sequence('queue', 'id'), $2 + 1),
       setval('claim_id', $3 + 1), setval(pg_get_serial_sequence('command', 'id'), $4 + 1),
       setval(pg_get_serial_sequence('ordered', 'turn'), $5 + 1), setval(pg_get_serial_sequence('roster', 'id'), $6 + 1)
