-- messages whose attachment is missing
SELECT u.key FROM blob_use u LEFT JOIN blob b ON b.digest = u.digest WHERE b.digest IS NULL
