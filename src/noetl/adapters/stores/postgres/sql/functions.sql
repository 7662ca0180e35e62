-- Functions for one round trip each. Created anew at every opening of the store.

-- Store a transition with at most one report and at most one command. Returns null if it
-- is stored; otherwise the position of its log, or -1 if its lease is lost. A lease that
-- proves lost after a write raises an exception, which undoes the write.
CREATE OR REPLACE FUNCTION commit_plain(
  name text, after integer, as_status text, as_summary text, hash bytea,
  key text, is_over boolean, new_seq integer, seqs integer[], counts smallint[],
  dictionaries smallint[], hashes bytea[], bodies bytea[],
  lease_id text, lease_epoch integer, lease_owner text, ends boolean, report integer,
  planned_id text, planned_rank bigint, planned_pool text, planned_state text,
  due double precision, planned_epoch integer, planned_owner text,
  until double precision, planned_together text, parent text
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  mark bigint;
  kin bigint;
BEGIN
  IF after = 0 THEN
    IF parent IS NOT NULL THEN
      kin := (SELECT coalesce(x.family, x.number) FROM execution AS x
        WHERE x.execution_id = parent);
    END IF;
    INSERT INTO execution
      (execution_id, status, last_seq, last_hash, summary, request_key, family)
    VALUES (name, as_status, new_seq, hash, as_summary, key, kin)
    ON CONFLICT DO NOTHING RETURNING number INTO mark;
  ELSE
    UPDATE execution AS x SET last_seq = new_seq, status = as_status,
      last_hash = hash, summary = as_summary
    WHERE x.execution_id = name AND x.last_seq = after AND x.status <> 'quarantined'
    RETURNING x.number, x.family INTO mark, kin;
  END IF;
  IF mark IS NULL THEN
    IF lease_id IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM command AS c JOIN execution AS x ON x.number = c.execution
      WHERE c.command_id = lease_id AND c.epoch = lease_epoch
        AND c.owner = lease_owner AND c.state = 'leased' AND x.execution_id = name
    ) THEN
      RETURN -1;
    END IF;
    RETURN coalesce((SELECT x.last_seq FROM execution AS x WHERE x.execution_id = name), 0);
  END IF;
  IF lease_id IS NOT NULL THEN
    IF ends THEN
      DELETE FROM command AS c
      WHERE c.command_id = lease_id AND c.epoch = lease_epoch AND c.owner = lease_owner
        AND c.state = 'leased' AND c.execution = mark;
    ELSE
      UPDATE command AS c SET reported = coalesce(report, c.reported)
      WHERE c.command_id = lease_id AND c.epoch = lease_epoch AND c.owner = lease_owner
        AND c.state = 'leased' AND c.execution = mark;
    END IF;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'the lease is lost';
    END IF;
  END IF;
  INSERT INTO batch (execution, last_seq, events, dictionary, hash, body)
  SELECT mark, seqs[place], counts[place], dictionaries[place], hashes[place],
    bodies[place]
  FROM generate_subscripts(bodies, 1) AS place;
  IF planned_id IS NOT NULL THEN
    INSERT INTO command (command_id, execution, rank, pool, state, not_before,
      epoch, owner, expires_at, together, family)
    VALUES (planned_id, mark, planned_rank, planned_pool, planned_state, due,
      planned_epoch, planned_owner, until, planned_together, kin)
    ON CONFLICT (command_id) DO NOTHING;
  END IF;
  IF is_over THEN
    DELETE FROM command AS c WHERE c.execution = mark AND c.state IS NOT NULL;
    DELETE FROM timer AS r WHERE r.execution = mark AND r.kind <> 'finished';
  END IF;
  RETURN NULL;
END $$;

-- Lease ready commands. Families take turns, beginning after the family that was served
-- last, and so do the executions of each family: those of in_families begin after the
-- execution in after_executions, those of other families after their root.
-- Below zero, reported counts claims in a row without a report.
CREATE OR REPLACE FUNCTION claim(
  whom text, of_pool text, slots integer, at double precision,
  until double precision, turn bigint,
  in_families bigint[], after_executions bigint[]
) RETURNS TABLE (
  command_id text, execution_id text, epoch integer, number bigint, last_seq integer,
  kin bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  families bigint[] := '{}';
  served bigint[] := '{}';
  served_in bigint[] := '{}';
  at_family bigint := turn;
  at_number bigint;
  first bigint;
  wrapped boolean := false;
  needed integer;
  taken text[];
  groups text[];
BEGIN
  UPDATE command AS c
  SET state = CASE WHEN x.status IN ('running', 'waiting') THEN 'ready' ELSE 'held' END
  FROM execution AS x
  WHERE c.state = 'delayed' AND c.not_before <= at AND x.number = c.execution;
  WHILE cardinality(families) < slots LOOP
    SELECT coalesce(c.family, c.execution) INTO at_family FROM command AS c
    WHERE c.state = 'ready' AND c.pool = of_pool
      AND coalesce(c.family, c.execution) > at_family
      AND (c.together IS NULL OR NOT EXISTS (
        SELECT 1 FROM keeper AS k
        WHERE k.name = c.together AND k.owner <> whom AND k.expires_at > at))
    ORDER BY coalesce(c.family, c.execution) LIMIT 1;
    IF at_family IS NULL AND NOT wrapped THEN
      at_family := 0; wrapped := true;
      CONTINUE;
    END IF;
    EXIT WHEN at_family IS NULL OR (wrapped AND at_family > turn);
    families := families || at_family;
  END LOOP;
  -- Each of these families gets a command: this limits the executions to look at.
  FOREACH at_family IN ARRAY families LOOP
    first := coalesce((
      SELECT f.execution FROM unnest(in_families, after_executions) AS f(family, execution)
      WHERE f.family = at_family
    ), at_family);
    at_number := first; wrapped := false;
    needed := slots - cardinality(families) + 1;
    WHILE needed > 0 LOOP
      SELECT c.execution INTO at_number FROM command AS c
      WHERE c.state = 'ready' AND c.pool = of_pool
        AND coalesce(c.family, c.execution) = at_family AND c.execution > at_number
        AND (c.together IS NULL OR NOT EXISTS (
          SELECT 1 FROM keeper AS k
          WHERE k.name = c.together AND k.owner <> whom AND k.expires_at > at))
      ORDER BY c.execution LIMIT 1;
      IF at_number IS NULL AND NOT wrapped THEN
        at_number := 0; wrapped := true;
        CONTINUE;
      END IF;
      EXIT WHEN at_number IS NULL OR (wrapped AND at_number > first);
      served := served || at_number;
      served_in := served_in || at_family;
      needed := needed - 1;
    END LOOP;
  END LOOP;
  SELECT array_agg(dealt.command_id ORDER BY dealt.turn, dealt.place),
    array_agg(DISTINCT dealt.together) FILTER (WHERE dealt.together IS NOT NULL)
  INTO taken, groups
  FROM (
    SELECT hand.command_id, hand.together, hand.place,
      row_number() OVER (PARTITION BY hand.family ORDER BY hand.round, hand.place) AS turn
    FROM (
      SELECT ready.command_id, ready.together, s.family, s.place,
        row_number() OVER (PARTITION BY s.execution ORDER BY ready.rank) AS round
      FROM unnest(served, served_in) WITH ORDINALITY AS s(execution, family, place)
      CROSS JOIN LATERAL (
        SELECT c.command_id, c.rank, c.together FROM command AS c
        WHERE c.state = 'ready' AND c.pool = of_pool
          AND coalesce(c.family, c.execution) = s.family AND c.execution = s.execution
          AND (c.together IS NULL OR NOT EXISTS (
            SELECT 1 FROM keeper AS k
            WHERE k.name = c.together AND k.owner <> whom AND k.expires_at > at))
        ORDER BY c.rank LIMIT slots FOR UPDATE SKIP LOCKED
      ) AS ready
    ) AS hand
    ORDER BY turn, place LIMIT slots
  ) AS dealt;
  -- A concurrent claim may take commands with the same affinity: one owner keeps them.
  -- Always in this order: no deadlock.
  IF groups IS NOT NULL THEN
    WITH kept AS (
      INSERT INTO keeper AS k (name, owner, expires_at)
      SELECT g.name, whom, until FROM unnest(groups) AS g(name) ORDER BY g.name
      ON CONFLICT (name)
      DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
      WHERE k.owner = excluded.owner OR k.expires_at <= at
      RETURNING k.name
    )
    SELECT array_agg(w.command_id ORDER BY w.place) INTO taken
    FROM unnest(taken) WITH ORDINALITY AS w(command_id, place)
      JOIN command AS c USING (command_id)
    WHERE c.together IS NULL OR c.together IN (SELECT name FROM kept);
  END IF;
  RETURN QUERY
  WITH leased AS (
    UPDATE command AS c SET state = 'leased', epoch = c.epoch + 1, owner = whom,
      expires_at = until, reported = least(c.reported, 0) - 1
    FROM unnest(taken) WITH ORDINALITY AS w(name, place)
    WHERE c.command_id = w.name AND c.state = 'ready'
    RETURNING c.command_id, c.execution, c.family, c.epoch, w.place
  )
  SELECT l.command_id, x.execution_id, l.epoch, x.number, x.last_seq,
    coalesce(l.family, l.execution)
  FROM leased AS l JOIN execution AS x ON x.number = l.execution
  ORDER BY l.place;
END $$;

-- Extend leases of commands of these executions; return those that are still held. An
-- execution in quarantine has its leases until they expire.
CREATE OR REPLACE FUNCTION renew_leases(
  commands text[], executions text[], epochs integer[], owners text[],
  until double precision
) RETURNS TABLE (held text, held_epoch integer, held_owner text)
LANGUAGE plpgsql AS $$
DECLARE
  groups text[];
BEGIN
  SELECT array_agg(mine.together) FILTER (WHERE mine.together IS NOT NULL) INTO groups
  FROM (
    SELECT together FROM command WHERE command_id = ANY (commands)
    ORDER BY command_id FOR UPDATE
  ) AS mine;
  IF groups IS NOT NULL THEN
    PERFORM 1 FROM keeper WHERE name = ANY (groups) ORDER BY name FOR UPDATE;
    UPDATE keeper AS k SET expires_at = until
    FROM command AS c
      JOIN unnest(commands, executions, epochs, owners)
        AS l(command_id, execution_id, epoch, owner) USING (command_id, epoch, owner)
      JOIN execution AS x ON x.number = c.execution AND x.execution_id = l.execution_id
    WHERE k.name = c.together AND k.owner = l.owner AND c.state = 'leased';
  END IF;
  RETURN QUERY
  UPDATE command AS c SET expires_at = until
  FROM unnest(commands, executions, epochs, owners)
      AS l(command_id, execution_id, epoch, owner)
    JOIN execution AS x USING (execution_id)
  WHERE c.command_id = l.command_id AND c.state = 'leased' AND c.epoch = l.epoch
    AND c.owner = l.owner AND c.execution = x.number AND x.status <> 'quarantined'
  RETURNING c.command_id, c.epoch, c.owner;
END $$;

-- Offer commands of expired leases again, and held commands of open executions: these
-- became due while their execution was resumed, and neither transaction saw the other.
CREATE OR REPLACE FUNCTION expire_leases(before double precision)
RETURNS void LANGUAGE sql AS $$
  UPDATE command AS c SET state = 'ready' FROM execution AS x
  WHERE c.state = 'held' AND x.number = c.execution
    AND x.status IN ('running', 'waiting');
  UPDATE command AS c SET owner = NULL, expires_at = NULL,
    state = CASE WHEN x.status IN ('running', 'waiting') THEN 'ready' ELSE 'held' END
  FROM (
    SELECT command_id FROM command
    WHERE state = 'leased' AND expires_at <= before FOR UPDATE SKIP LOCKED
  ) AS gone, execution AS x
  WHERE c.command_id = gone.command_id AND x.number = c.execution;
  DELETE FROM keeper WHERE name IN (
    SELECT name FROM keeper WHERE expires_at <= before FOR UPDATE SKIP LOCKED
  )
$$;

-- Set the status of an unfinished execution: only an open one offers its commands. Its
-- leases stay until they expire: their owners do not know of the change yet.
CREATE OR REPLACE FUNCTION mark(name text, as_status text, as_summary text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  marked bigint;
  is_open boolean := as_status IN ('running', 'waiting');
BEGIN
  UPDATE execution AS x SET status = as_status, summary = as_summary
  WHERE x.execution_id = name AND x.status NOT IN ('completed', 'failed', 'cancelled')
  RETURNING x.number INTO marked;
  PERFORM 1 FROM command AS c WHERE c.execution = marked AND c.state IS NOT NULL
  ORDER BY c.command_id FOR UPDATE;
  UPDATE command AS c SET state = CASE WHEN is_open THEN 'ready' ELSE 'held' END
  WHERE c.execution = marked
    AND c.state = CASE WHEN is_open THEN 'held' ELSE 'ready' END;
END $$;

-- Remove finished executions as a whole, all of these or none. Servers may not delete
-- events: the function has the rights of the owner of the tables.
CREATE OR REPLACE FUNCTION remove_executions(names text[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  numbers bigint[];
  wrong text;
BEGIN
  PERFORM 1 FROM execution WHERE execution_id = ANY (names)
  ORDER BY execution_id FOR UPDATE;
  SELECT array_agg(x.number), min(x.execution_id)
    FILTER (WHERE x.status NOT IN ('completed', 'failed', 'cancelled'))
  INTO numbers, wrong FROM execution AS x WHERE x.execution_id = ANY (names);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'execution % is not over: it is not removed', wrong;
  END IF;
  SELECT min(n.name) INTO wrong FROM unnest(names) AS n(name)
  WHERE NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = n.name);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'there is no execution %', wrong;
  END IF;
  PERFORM set_config('noetl.removing', 'on', true);
  DELETE FROM event WHERE execution = ANY (numbers);
  DELETE FROM batch WHERE execution = ANY (numbers);
  DELETE FROM task_log WHERE execution = ANY (numbers);
  PERFORM set_config('noetl.removing', 'off', true);
  DELETE FROM command AS c USING unnest(names) AS n(name)
  WHERE c.command_id >= n.name || '-' AND c.command_id < n.name || '.';
  DELETE FROM timer WHERE execution = ANY (numbers);
  DELETE FROM place WHERE execution = ANY (numbers);
  DELETE FROM snapshot WHERE execution = ANY (numbers);
  DELETE FROM fork WHERE execution = ANY (numbers);
  SELECT min(o.execution_id) INTO wrong FROM fork AS f JOIN execution AS o
  ON o.number = f.origin WHERE f.origin = ANY (numbers);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'execution % has a fork: it is not removed', wrong;
  END IF;
  DELETE FROM execution WHERE number = ANY (numbers);
END $$;
REVOKE ALL ON FUNCTION remove_executions(text[]) FROM PUBLIC;

-- Make the partitions of the log for the executions to come, 100,000 in each. Servers
-- call it again and again, with the rights of the owner of the tables. It gives up if a
-- reader is in the way, and one server does it at a time: the next call is early enough.
-- Rows that were stored without a partition of their own stay where they are.
CREATE OR REPLACE FUNCTION add_partitions()
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET lock_timeout = '200ms' AS $$
DECLARE
  size CONSTANT bigint := 100000;
  newest bigint := coalesce((SELECT max(number) FROM execution), 0);
  start bigint;
  part text;
BEGIN
  FOR place IN 0 .. 2 LOOP
    start := (newest / size + place) * size;
    part := 'batch_' || start;
    CONTINUE WHEN to_regclass(part) IS NOT NULL
      OR start <= coalesce((SELECT max(execution) FROM batch_rest), -1);
    EXIT WHEN NOT pg_try_advisory_xact_lock(hashtext('add_partitions'), 0);
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
    -- Attaching, unlike creating, lets commits go on.
    EXECUTE format('CREATE TABLE %I (LIKE batch INCLUDING STORAGE)', part);
    EXECUTE format('CREATE TRIGGER batch_is_never_emptied BEFORE TRUNCATE ON %I '
      'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE batch ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
      part, start, start + size);
  END LOOP;
EXCEPTION WHEN lock_not_available OR check_violation THEN
  NULL;
END $$;
REVOKE ALL ON FUNCTION add_partitions() FROM PUBLIC;
SELECT add_partitions();

-- Drop a partition of the log in which nothing is left, and return its name. Its space
-- is free at once. Commits wait for it, so it gives up soon if a reader is in the way.
-- A partition is looked at again after it is locked: an execution may have begun.
CREATE OR REPLACE FUNCTION drop_partition()
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET lock_timeout = '100ms' AS $$
DECLARE
  size CONSTANT bigint := 100000;
  newest bigint := coalesce((SELECT max(number) FROM execution), 0);
  part text;
  start bigint;
  is_used boolean;
BEGIN
  FOR part IN SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c
    ON c.oid = i.inhrelid WHERE i.inhparent = 'batch'::regclass
    AND c.relname ~ '^batch_[0-9]+$' ORDER BY length(c.relname), c.relname
  LOOP
    start := substr(part, 7)::bigint;
    EXIT WHEN start + size > newest;
    CONTINUE WHEN EXISTS (SELECT 1 FROM execution AS x
      WHERE x.number >= start AND x.number < start + size);
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part) INTO is_used;
    CONTINUE WHEN is_used;
    LOCK TABLE ONLY batch IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part) INTO is_used;
    CONTINUE WHEN is_used;
    EXECUTE format('DROP TABLE %I', part);
    RETURN part;
  END LOOP;
  RETURN NULL;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION drop_partition() FROM PUBLIC;

-- Remove entries of the audit from before a time, at most so many, and return their
-- number. Servers may not delete them: the function has the rights of the owner, and
-- those of the last 30 days stay.
CREATE OR REPLACE FUNCTION remove_audit(before double precision, most integer)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  found bigint;
BEGIN
  DELETE FROM audit WHERE audit_id IN (
    SELECT a.audit_id FROM audit AS a
    WHERE a.at < least(before, extract(epoch FROM now()) - 30 * 86400)
    ORDER BY a.audit_id LIMIT most);
  GET DIAGNOSTICS found = ROW_COUNT;
  RETURN found;
END $$;
REVOKE ALL ON FUNCTION remove_audit(double precision, integer) FROM PUBLIC;
