-- keys; by receipt_by_key. Whoever reports on one of these messages is waited for, and finds nothing afterwards.
SELECT key FROM receipt WHERE key = ANY ($1) ORDER BY slice, hash FOR UPDATE
