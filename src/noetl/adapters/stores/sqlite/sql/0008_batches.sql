-- The events of one commit of one execution are a row. The key is execution number << 32
-- | seq of the last event. A row is read by the dictionary of its number, which stays.
CREATE TABLE dictionary (
  number INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

INSERT INTO dictionary (number, body)
VALUES (1, x'{file noetl.adapters.stores dictionary_1.bin}');

CREATE TABLE batch (
  key INTEGER PRIMARY KEY,
  events INTEGER NOT NULL,
  dictionary INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body BLOB NOT NULL
);

CREATE TRIGGER batch_is_never_changed BEFORE UPDATE ON batch
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;

CREATE TRIGGER batch_is_never_removed BEFORE DELETE ON batch
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;

CREATE TRIGGER dictionary_is_never_changed BEFORE UPDATE ON dictionary
BEGIN
  SELECT RAISE(ABORT, 'the log is read by its dictionaries');
END;

CREATE TRIGGER dictionary_is_never_removed BEFORE DELETE ON dictionary
BEGIN
  SELECT RAISE(ABORT, 'the log is read by its dictionaries');
END;

-- Sums of the events up to a position, which readers make and keep.
CREATE TABLE tally (
  execution INTEGER NOT NULL REFERENCES execution (number),
  version INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (execution, version, seq)
) WITHOUT ROWID;

-- A command that has ended has no row any more.
DELETE FROM command WHERE state IS NULL;
