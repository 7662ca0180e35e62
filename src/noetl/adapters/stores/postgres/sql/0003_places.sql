-- Which executions have a place of a concurrency key, or wait for one. A row counts as
-- long as its execution is not over.
CREATE TABLE place (
  execution bigint PRIMARY KEY REFERENCES execution (number),
  key text NOT NULL,
  most integer NOT NULL,
  queued boolean NOT NULL
);

CREATE INDEX place_key ON place (key, queued, execution);
