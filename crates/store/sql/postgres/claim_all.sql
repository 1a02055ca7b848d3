-- the whole journal, oldest first; never more than what is being sent
SELECT id, at, members FROM claim ORDER BY id
