-- The log, and what it makes due. "NoET" in the header says whose file this is.
PRAGMA application_id = 1315915092;

CREATE TABLE execution (
  number INTEGER PRIMARY KEY,
  execution_id TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  last_hash BLOB NOT NULL,
  summary TEXT NOT NULL,
  request_key TEXT
);

-- Listings by status, newest first: the index ends in the number.
CREATE INDEX execution_status ON execution (status);
CREATE UNIQUE INDEX execution_request ON execution (request_key)
WHERE request_key IS NOT NULL;

-- The key is execution number << 32 | seq: appends go to few pages, and a log is read
-- in one range. No other index: it would cost half of the rate.
CREATE TABLE event (
  key INTEGER PRIMARY KEY,
  hash BLOB NOT NULL,
  body BLOB NOT NULL
);

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;

CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;

-- A command without a state is over. Its rank is its place in the order of planning.
-- A delayed one becomes ready when it is due, so that a claim never walks over those
-- that are not. One index for ready and leased: a claim then changes one page of it.
CREATE TABLE command (
  command_id TEXT NOT NULL PRIMARY KEY,
  execution INTEGER NOT NULL REFERENCES execution (number),
  rank INTEGER NOT NULL,
  pool TEXT NOT NULL,
  state TEXT CHECK (state IN ('delayed', 'ready', 'leased')),
  not_before REAL NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  boot_id TEXT,
  expires_at REAL,
  reported INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE INDEX command_open ON command (state, pool, execution, rank)
WHERE state IS NOT NULL;
CREATE INDEX command_delayed ON command (not_before) WHERE state = 'delayed';

CREATE TABLE timer (
  execution INTEGER NOT NULL REFERENCES execution (number),
  timer_id TEXT NOT NULL,
  due_at REAL NOT NULL,
  kind TEXT NOT NULL,
  PRIMARY KEY (execution, timer_id)
) WITHOUT ROWID;

CREATE INDEX timer_due ON timer (due_at);

-- What the log adds up to at a point of it: one per execution, the last. It is never
-- needed, only faster.
CREATE TABLE snapshot (
  execution INTEGER PRIMARY KEY REFERENCES execution (number),
  seq INTEGER NOT NULL,
  body BLOB NOT NULL
);
