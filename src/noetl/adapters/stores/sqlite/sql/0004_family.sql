-- The number of the root that an execution descends from; a root has none. Executions
-- that were there before are roots, each of its own family.
ALTER TABLE execution ADD COLUMN family INTEGER;

-- What of a family is not over yet.
CREATE INDEX execution_family ON execution (family, status)
WHERE family IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled');

-- Families take turns, and the executions of each of them: the index is in this order.
ALTER TABLE command ADD COLUMN family INTEGER;
UPDATE command SET family = execution WHERE state IS NOT NULL;

DROP INDEX command_open;
CREATE INDEX command_open
ON command (state, pool, family, execution, rank, together) WHERE state IS NOT NULL;
