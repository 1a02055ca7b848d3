SELECT channel, destination, body, probe FROM block ORDER BY channel COLLATE "C", destination COLLATE "C" NULLS FIRST
