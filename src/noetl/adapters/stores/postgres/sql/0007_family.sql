-- The number of the root that an execution descends from; a root has none. Executions
-- that were there before are roots, each of its own family.
ALTER TABLE execution ADD COLUMN family bigint;

-- What of a family is not over yet.
CREATE INDEX execution_family ON execution (family)
WHERE family IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled');

-- Families take turns, and the executions of each of them: the index is in this order.
ALTER TABLE command ADD COLUMN family bigint;
DROP INDEX command_ready;
CREATE INDEX command_ready
ON command (pool, (coalesce(family, execution)), execution, rank) WHERE state = 'ready';
