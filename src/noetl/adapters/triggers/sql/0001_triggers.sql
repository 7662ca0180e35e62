-- Triggers and backfills; understood by SQLite and PostgreSQL alike.

CREATE TABLE triggers (
  name text PRIMARY KEY,
  definition text NOT NULL,
  created_at double precision NOT NULL,
  created_by text NOT NULL,
  credential text,
  paused boolean NOT NULL DEFAULT false,
  decided double precision NOT NULL DEFAULT 0,
  next_at double precision,
  pending text NOT NULL DEFAULT '[]',
  last_slot double precision,
  last_execution text,
  revision integer NOT NULL DEFAULT 1,
  kind text NOT NULL
);

CREATE INDEX triggers_next ON triggers (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE backfill (
  backfill_id text PRIMARY KEY,
  name text NOT NULL REFERENCES triggers (name) ON DELETE CASCADE,
  since double precision NOT NULL,
  until double precision NOT NULL,
  at_once integer NOT NULL,
  total integer NOT NULL,
  progress text NOT NULL,
  created_at double precision NOT NULL,
  created_by text NOT NULL,
  state text NOT NULL,
  revision integer NOT NULL DEFAULT 1,
  is_open boolean NOT NULL DEFAULT true
);

CREATE INDEX backfill_open ON backfill (name) WHERE is_open;
