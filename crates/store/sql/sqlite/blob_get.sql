-- digest; by its unique index
SELECT bytes FROM blob WHERE digest = ?1
