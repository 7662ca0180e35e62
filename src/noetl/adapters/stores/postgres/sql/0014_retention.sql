-- All members of a family, over or not.
CREATE INDEX execution_kin ON execution (family, number) WHERE family IS NOT NULL;

-- Which executions are forks of others of this log: an origin stays as long as a fork
-- of it, which may read values from its log. A trigger keeps the table.
CREATE TABLE fork (
  execution bigint PRIMARY KEY REFERENCES execution (number) ON DELETE CASCADE,
  origin bigint NOT NULL REFERENCES execution (number)
);

CREATE INDEX fork_origin ON fork (origin);

INSERT INTO fork (execution, origin)
SELECT x.number, o.number FROM execution AS x JOIN execution AS o
ON o.execution_id = x.summary::json #>> '{forked_from,execution_id}'
WHERE strpos(x.summary, '"forked_from":{') > 0;

CREATE FUNCTION add_fork() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO fork (execution, origin)
  SELECT NEW.number, o.number FROM execution AS o
  WHERE o.execution_id = NEW.summary::json #>> '{forked_from,execution_id}';
  RETURN NULL;
END $$;

CREATE TRIGGER execution_is_a_fork AFTER INSERT ON execution FOR EACH ROW
WHEN (strpos(NEW.summary, '"forked_from":{') > 0) EXECUTE FUNCTION add_fork();

-- The server that removes old executions, until when, and what it is about to remove.
CREATE TABLE retention (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  owner text NOT NULL,
  expires_at double precision NOT NULL,
  plan text
);
