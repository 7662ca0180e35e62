-- The events of one commit of one execution are a row, whose key is the position of its
-- last event. A row is read by the dictionary of its number, which stays.
CREATE TABLE dictionary (
  number smallint PRIMARY KEY,
  body bytea NOT NULL
);

INSERT INTO dictionary (number, body)
VALUES (1, decode('{file noetl.adapters.stores dictionary_1.bin}', 'hex'));

-- A partition is a span of executions, which retention drops whole: see add_partitions.
CREATE TABLE batch (
  execution bigint NOT NULL,
  last_seq integer NOT NULL,
  events smallint NOT NULL,
  dictionary smallint NOT NULL,
  hash bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (execution, last_seq)
) PARTITION BY RANGE (execution);

CREATE TABLE batch_rest PARTITION OF batch DEFAULT;

-- Bodies are compressed already.
ALTER TABLE batch ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE batch_rest ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TRIGGER batch_is_never_changed BEFORE UPDATE OR DELETE ON batch
FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER batch_is_never_emptied BEFORE TRUNCATE ON batch
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER batch_is_never_emptied BEFORE TRUNCATE ON batch_rest
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_other_dictionary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is read by its dictionaries';
END $$;
CREATE TRIGGER dictionary_is_never_changed
BEFORE UPDATE OR DELETE OR TRUNCATE ON dictionary
FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_dictionary();

-- Sums of the events up to a position, which readers make and keep.
CREATE TABLE tally (
  execution bigint NOT NULL REFERENCES execution (number) ON DELETE CASCADE,
  version integer NOT NULL,
  seq integer NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (execution, version, seq)
);

-- A command that has ended has no row any more.
DELETE FROM command WHERE state IS NULL;
