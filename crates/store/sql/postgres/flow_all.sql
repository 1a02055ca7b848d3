-- how far bounded places have come
SELECT channel, destination, next, at FROM flow
