-- An event goes only together with its whole execution, when that is over and somebody
-- removes it on purpose. This holds for the owner of the tables, too.
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF current_setting('noetl.removing', true) = 'on' AND EXISTS (
      SELECT 1 FROM execution AS x WHERE x.number = OLD.execution
        AND x.status IN ('completed', 'failed', 'cancelled')
    ) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'the log is append-only';
END $$;

-- Partitions inherit what guards their rows, and not what guards them as a whole.
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON event_rest
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
