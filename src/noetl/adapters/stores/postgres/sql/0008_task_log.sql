-- What tasks print. Rows are inserted and read, never changed; they are removed together
-- with their execution. A number is only given after all lower ones are committed, so a
-- reader that has seen one will not find a lower one later.
CREATE TABLE task_log (
  execution bigint NOT NULL,
  number integer NOT NULL,
  command_id text COLLATE "C" NOT NULL,
  epoch integer NOT NULL,
  step text NOT NULL,
  task text NOT NULL,
  task_run_id text COLLATE "C" NOT NULL,
  attempt integer NOT NULL,
  part integer NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (execution, number)
);

CREATE UNIQUE INDEX task_log_part
ON task_log (execution, task_run_id, attempt, epoch, part);

CREATE TRIGGER task_log_is_never_changed BEFORE UPDATE OR DELETE ON task_log
FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER task_log_is_never_emptied BEFORE TRUNCATE ON task_log
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
