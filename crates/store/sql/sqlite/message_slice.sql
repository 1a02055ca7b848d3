-- the newest slice, of messages or of receipts, and how many messages it holds: index message_by_recipient
SELECT slice, (SELECT count(*) FROM message WHERE message.slice = newest.slice) FROM (
  SELECT max(coalesce((SELECT max(slice) FROM message), 0), coalesce((SELECT max(slice) FROM receipt), 0)) AS slice
) AS newest
