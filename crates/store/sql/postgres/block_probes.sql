-- keys of messages; what they are trying
SELECT channel, destination, body, probe FROM block WHERE probe = ANY ($1::bigint[])
