-- primary key
SELECT max(slice) FROM directory
