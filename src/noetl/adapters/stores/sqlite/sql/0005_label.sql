-- The labels of executions, by name and value. A listing by a label reads a range of
-- this table from its end. Triggers keep it: labels never change.
CREATE TABLE label (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  execution INTEGER NOT NULL,
  PRIMARY KEY (name, value, execution)
) WITHOUT ROWID;

CREATE INDEX label_execution ON label (execution);

CREATE TRIGGER execution_is_labelled AFTER INSERT ON execution
WHEN instr(NEW.summary, '"labels":{"')
BEGIN
  INSERT INTO label (name, value, execution)
  SELECT key, value, NEW.number FROM json_each(NEW.summary, '$.labels');
END;

CREATE TRIGGER execution_loses_labels AFTER DELETE ON execution
BEGIN
  DELETE FROM label WHERE execution = OLD.number;
END;
