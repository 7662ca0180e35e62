-- Secrets of executions under way. They are sealed; the key is not in the database.
CREATE TABLE sealed (
  execution_id text NOT NULL,
  name text NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (execution_id, name)
);
