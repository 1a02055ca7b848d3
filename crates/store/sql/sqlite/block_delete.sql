-- channel, destination
DELETE FROM block WHERE channel = ?1 AND destination = ?2
