-- processes that use the store, or died less than ten minutes ago
SELECT count(*) FROM slot WHERE until > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
