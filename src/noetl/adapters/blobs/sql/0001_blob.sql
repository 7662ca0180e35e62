-- Values that are too large for the log, in parts: no row is ever larger than one of them.
CREATE TABLE blob (
  key text PRIMARY KEY,
  size bigint NOT NULL,
  put_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE blob_part (
  key text NOT NULL REFERENCES blob ON DELETE CASCADE,
  number integer NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (key, number)
);
-- It is compressed by whoever wrote it, or not worth it.
ALTER TABLE blob_part ALTER COLUMN data SET STORAGE EXTERNAL;
