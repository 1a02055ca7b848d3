-- the newest slice and how many messages it holds: index message_by_recipient
SELECT slice, count(*) FROM message WHERE slice = (SELECT max(slice) FROM message) GROUP BY slice
