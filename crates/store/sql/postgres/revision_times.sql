-- key; a range of the primary key
SELECT seq, replaced_at FROM revision WHERE key = $1 ORDER BY version
