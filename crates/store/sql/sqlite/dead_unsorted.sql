-- limit; letters whose cause is not known yet: index dead_letter_by_cause
SELECT key FROM dead_letter WHERE cause = 0 ORDER BY key LIMIT ?1
