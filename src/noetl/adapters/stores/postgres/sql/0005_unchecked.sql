-- The number of an execution comes from the statement that finds or makes its row, and
-- rows of executions are never removed before theirs: to look it up again for each
-- command and timer is a tenth of what a commit costs.
ALTER TABLE command DROP CONSTRAINT command_execution_fkey;
ALTER TABLE timer DROP CONSTRAINT timer_execution_fkey;
