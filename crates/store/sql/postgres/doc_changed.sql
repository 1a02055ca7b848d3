-- since when; campaigns and lines that were changed from then on, and which version each is. By doc_by_change
SELECT shelf, tenant, id, version FROM doc WHERE shelf IN (7, 8) AND updated_at >= $1
