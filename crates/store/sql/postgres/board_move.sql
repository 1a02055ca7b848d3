-- the blocks changed
UPDATE board SET version = version + 1
