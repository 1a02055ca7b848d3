-- of the blocks
SELECT version FROM board
