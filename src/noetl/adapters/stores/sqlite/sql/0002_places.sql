-- Which executions have a place of a concurrency key, or wait for one. A row counts as
-- long as its execution is not over.
CREATE TABLE place (
  execution INTEGER PRIMARY KEY REFERENCES execution (number),
  key TEXT NOT NULL,
  most INTEGER NOT NULL,
  queued INTEGER NOT NULL
);

CREATE INDEX place_key ON place (key, queued, execution);
