-- rises with every commit that recorded something
SELECT coalesce(max(turn), 0) FROM audit
