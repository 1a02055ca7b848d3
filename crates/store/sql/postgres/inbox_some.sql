-- limit; what applications enqueued, oldest first. Large ones come in small numbers, since they are held in memory
SELECT key, nonce, tenant, request::text, fingerprint(request) FROM (
  SELECT key, nonce, tenant, request, sum(pg_column_size(request)) OVER (ORDER BY key) - pg_column_size(request) AS before
  FROM (SELECT key, nonce, tenant, request FROM inbox ORDER BY key LIMIT $1) first
) measured WHERE before < 1048576 ORDER BY key
