SELECT channel, destination, body FROM block ORDER BY channel, destination
