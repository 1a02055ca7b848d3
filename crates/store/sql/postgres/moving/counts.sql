-- how many rows each table has
SELECT 'queue', count(*) FROM queue
UNION ALL SELECT 'message', count(*) FROM message
UNION ALL SELECT 'history', count(*) FROM history
UNION ALL SELECT 'ready', count(*) FROM ready
UNION ALL SELECT 'claim', count(*) FROM claim
UNION ALL SELECT 'ordered', count(*) FROM ordered
UNION ALL SELECT 'expiry', count(*) FROM expiry
UNION ALL SELECT 'idempotency', count(*) FROM idempotency
UNION ALL SELECT 'block', count(*) FROM block
UNION ALL SELECT 'tally', count(*) FROM (
  SELECT hour, tenant, channel, what, detail FROM tally
  UNION SELECT hour, tenant, channel, what, detail FROM tally_added
  UNION SELECT 0, tenant, channel, what, detail FROM tally_added WHERE detail = ''
) AS counted
UNION ALL SELECT 'receipt', count(*) FROM receipt
UNION ALL SELECT 'delivery', count(*) FROM delivery
UNION ALL SELECT 'cause', count(*) FROM cause
UNION ALL SELECT 'dead_letter', count(*) FROM dead_letter
UNION ALL SELECT 'revision', count(*) FROM revision
UNION ALL SELECT 'template', count(*) FROM template
UNION ALL SELECT 'blob', count(*) FROM blob
UNION ALL SELECT 'blob_use', count(*) FROM blob_use
UNION ALL SELECT 'doc', count(*) FROM doc
UNION ALL SELECT 'roster', count(*) FROM roster
UNION ALL SELECT 'recipient', count(*) FROM recipient
UNION ALL SELECT 'aside', (SELECT count(*) FROM inbox) + (SELECT count(*) FROM command) + (SELECT count(*) FROM refused)
  + (SELECT count(*) FROM channel) + (SELECT count(*) FROM app)
UNION ALL SELECT 'audit', count(*) FROM audit
