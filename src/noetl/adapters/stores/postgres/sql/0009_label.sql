-- The labels of executions, by name and value. A listing by a label reads a range of
-- this table from its end. A trigger keeps it: labels never change.
CREATE TABLE label (
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  execution bigint NOT NULL REFERENCES execution (number) ON DELETE CASCADE,
  PRIMARY KEY (name, value, execution)
);

CREATE INDEX label_execution ON label (execution);

CREATE FUNCTION add_labels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO label (name, value, execution)
  SELECT l.key, l.value, NEW.number
  FROM json_each_text(NEW.summary::json -> 'labels') AS l;
  RETURN NULL;
END $$;

CREATE TRIGGER execution_is_labelled AFTER INSERT ON execution FOR EACH ROW
WHEN (strpos(NEW.summary, '"labels":{"') > 0) EXECUTE FUNCTION add_labels();
