-- keys, each once, at, state, tenant, detail
INSERT INTO delivery (key, at, state, tenant, detail) SELECT * FROM unnest($1, $2, $3, $4, $5)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, state = excluded.state, detail = excluded.detail
