-- index message_by_recipient
SELECT max(slice) FROM message
