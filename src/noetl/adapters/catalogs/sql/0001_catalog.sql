-- Registered playbooks: each version stays as it is. The rank is the version as a text
-- that sorts.

CREATE TABLE playbook (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  playbook_id text NOT NULL UNIQUE,
  path text COLLATE "C" NOT NULL,
  version text NOT NULL,
  rank text COLLATE "C" NOT NULL,
  body text NOT NULL,
  UNIQUE (path, version)
);

CREATE INDEX playbook_rank ON playbook (path, rank, number);
