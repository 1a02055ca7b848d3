-- key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, policy, actor, block, doubtful, keyed, reprocessed_by
INSERT INTO history (key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, policy, actor, block, doubtful, keyed, reprocessed_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
