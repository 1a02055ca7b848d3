-- the newest slice, of messages or of receipts, how many messages it holds, and how many are not in the directory: primary key, row ids
WITH unlisted AS MATERIALIZED (SELECT slice FROM message WHERE key > (SELECT key FROM directory_end)),
newest AS MATERIALIZED (
  SELECT max(coalesce((SELECT max(slice) FROM directory), 0), coalesce((SELECT max(slice) FROM receipt), 0),
             coalesce((SELECT max(slice) FROM unlisted), 0)) AS slice
)
SELECT slice,
       (SELECT count(*) FROM directory WHERE directory.slice = newest.slice)
         + (SELECT count(*) FROM unlisted WHERE unlisted.slice = newest.slice),
       (SELECT count(*) FROM unlisted),
       (SELECT key FROM directory_end)
FROM newest
