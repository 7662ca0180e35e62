-- The log of many executions, and what it makes due. Servers come and go; this stays.

CREATE TABLE execution (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  execution_id text COLLATE "C" NOT NULL UNIQUE,
  status text NOT NULL,
  last_seq integer NOT NULL DEFAULT 0,
  last_hash bytea NOT NULL DEFAULT '',
  summary text NOT NULL,
  request_key text UNIQUE
);

-- Listings by status, newest first.
CREATE INDEX execution_status ON execution (status, number);

-- Numbers are given in the order of time, so a partition is a span of time: old ones
-- are detached and archived whole. One partition takes everything until then.
CREATE TABLE event (
  execution bigint NOT NULL,
  seq integer NOT NULL,
  hash bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (execution, seq)
) PARTITION BY RANGE (execution);

CREATE TABLE event_rest PARTITION OF event DEFAULT;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is append-only';
END $$;

CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A command without a state is over. One that is held is ready, and its execution is
-- not: so a claim meets only what it may take.
CREATE TABLE command (
  command_id text COLLATE "C" PRIMARY KEY,
  execution bigint NOT NULL REFERENCES execution (number),
  rank bigint NOT NULL,
  pool text NOT NULL,
  state text CHECK (state IN ('delayed', 'ready', 'held', 'leased')),
  not_before double precision NOT NULL,
  epoch integer NOT NULL DEFAULT 0,
  owner text,
  expires_at double precision,
  reported integer NOT NULL DEFAULT 0
);

CREATE INDEX command_ready ON command (pool, execution, rank) WHERE state = 'ready';
CREATE INDEX command_delayed ON command (not_before) WHERE state = 'delayed';
CREATE INDEX command_leased ON command (expires_at) WHERE state = 'leased';
CREATE INDEX command_open ON command (execution, state) WHERE state IS NOT NULL;

CREATE TABLE timer (
  execution bigint NOT NULL REFERENCES execution (number),
  timer_id text NOT NULL,
  due_at double precision NOT NULL,
  kind text NOT NULL,
  PRIMARY KEY (execution, timer_id)
);

CREATE INDEX timer_due ON timer (due_at);

-- What a log adds up to at a point of it: the last one only, never needed, only faster.
CREATE TABLE snapshot (
  execution bigint PRIMARY KEY REFERENCES execution (number),
  seq integer NOT NULL,
  body bytea NOT NULL
);
