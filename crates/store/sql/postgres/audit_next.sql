-- names the audit row of the group
SELECT nextval('audit_batch')
