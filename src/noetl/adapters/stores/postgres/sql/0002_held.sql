-- The commands of executions that are paused or set aside.
CREATE INDEX command_held ON command (execution) WHERE state = 'held';

-- Rows of commands and executions change all the time: what is left of them is tidied up
-- after so many changes, not only after a part of a table that grows for ever.
ALTER TABLE command SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);
ALTER TABLE timer SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);
ALTER TABLE execution SET (fillfactor = 50);
