-- what every claim lists
SELECT members FROM claim
