-- Keys that seal secrets; each is sealed itself by a key that is not in the database.
-- `proof` is an empty text, sealed: what opens it is the right key. The newest key seals.
CREATE TABLE data_key (
  key_id text PRIMARY KEY,
  number bigint GENERATED ALWAYS AS IDENTITY,
  made_at timestamptz NOT NULL DEFAULT now(),
  sealed_by text NOT NULL,
  sealed bytea NOT NULL,
  proof bytea NOT NULL
);
-- Secrets for playbooks. The seal covers all columns: a changed row does not open.
CREATE TABLE keychain (
  name text PRIMARY KEY,
  kind text NOT NULL,
  fields text,
  updated_at text NOT NULL,
  bound text NOT NULL,
  declared text,
  key_id text NOT NULL REFERENCES data_key,
  sealed bytea NOT NULL
);
-- The key by which servers seal secrets of webhooks, and links that answer a question.
CREATE TABLE server_key (
  number integer PRIMARY KEY DEFAULT 1 CHECK (number = 1),
  key_id text NOT NULL REFERENCES data_key,
  sealed bytea NOT NULL
);
-- Without a key, a row was sealed by the key file of an earlier version.
ALTER TABLE sealed ADD COLUMN key_id text REFERENCES data_key;
