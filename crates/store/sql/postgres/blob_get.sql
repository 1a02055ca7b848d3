-- digest; primary key
SELECT bytes FROM blob WHERE digest = $1
