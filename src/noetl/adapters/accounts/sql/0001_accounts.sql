-- Accounts and their tokens; understood by SQLite and PostgreSQL alike.

CREATE TABLE account (
  user_id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  grants text NOT NULL,
  created_at double precision NOT NULL,
  email text,
  display_name text,
  password_hash text,
  issuer text,
  subject text,
  disabled boolean NOT NULL DEFAULT false,
  version integer NOT NULL DEFAULT 1,
  UNIQUE (issuer, subject)
);

CREATE TABLE api_token (
  token_id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES account (user_id) ON DELETE CASCADE,
  digest text NOT NULL UNIQUE,
  label text NOT NULL,
  scopes text,
  created_at double precision NOT NULL,
  expires_at double precision,
  last_used_at double precision
);

CREATE INDEX api_token_user ON api_token (user_id);
