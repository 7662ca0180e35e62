-- All members of a family, over or not.
CREATE INDEX execution_kin ON execution (family) WHERE family IS NOT NULL;

-- Which executions are forks of others of this log: an origin stays as long as a fork
-- of it, which may read values from its log. Triggers keep the table.
CREATE TABLE fork (
  execution INTEGER PRIMARY KEY,
  origin INTEGER NOT NULL
);

CREATE INDEX fork_origin ON fork (origin);

INSERT INTO fork (execution, origin)
SELECT x.number, o.number FROM execution AS x JOIN execution AS o
ON o.execution_id = json_extract(x.summary, '$.forked_from.execution_id')
WHERE instr(x.summary, '"forked_from":{');

CREATE TRIGGER execution_is_a_fork AFTER INSERT ON execution
WHEN instr(NEW.summary, '"forked_from":{')
BEGIN
  INSERT INTO fork (execution, origin)
  SELECT NEW.number, o.number
  FROM json_each(NEW.summary, '$.forked_from') AS j JOIN execution AS o
  ON o.execution_id = j.value WHERE j.key = 'execution_id';
END;

CREATE TRIGGER execution_is_no_fork AFTER DELETE ON execution
BEGIN
  DELETE FROM fork WHERE execution = OLD.number;
END;

-- What is about to be removed, after it was copied to the archive.
CREATE TABLE retention (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
  owner TEXT NOT NULL,
  expires_at REAL NOT NULL,
  plan TEXT
);
