-- digests, message keys
INSERT INTO blob_use (digest, key) SELECT * FROM unnest($1, $2) ON CONFLICT DO NOTHING
