-- Commit a group of transitions, one of each execution, each as a whole or not at all:
-- one statement, so one round trip and one snapshot. Returns a row for each refused
-- transition: the position of its log, or the lease that is lost. Parts without a
-- dependency may run in any order, and no part sees the writes of another, so no row is
-- written twice. Parts with a name are left out of groups that do not need them, with
-- their parameters. "place" is the number of a transition in the group.
WITH
t AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::integer[], $3::integer[], $4::text[],
    $5::text[], $6::bytea[], $36::text[], $45::text[], $47::text[]) WITH ORDINALITY
    AS t(execution_id, after, events, status, summary, hash, offers, request_key,
      parent_id, place)
),
-- An execution does not begin if its id or its request key exists.
begun AS (
  INSERT INTO execution
    (execution_id, status, last_seq, last_hash, summary, request_key, family)
  SELECT t.execution_id, t.status, t.events, t.hash, t.summary, t.request_key,
    coalesce(p.family, p.number)
  FROM t LEFT JOIN execution AS p ON p.execution_id = t.parent_id
  WHERE t.after = 0
  ON CONFLICT DO NOTHING
  RETURNING number, execution_id, family
),
-- Other commits of these executions wait here, always in this order: no deadlock.
found AS MATERIALIZED (
  SELECT number, execution_id, last_seq, status, family FROM execution
  WHERE execution_id = ANY ($1) ORDER BY execution_id FOR UPDATE
),
lease AS MATERIALIZED (
  SELECT * FROM unnest($7::integer[], $8::text[], $9::integer[], $10::text[])
    AS l(place, command_id, epoch, owner)
),
held AS MATERIALIZED (
  SELECT c.command_id, c.epoch, c.owner, c.state, c.execution FROM command AS c
  WHERE c.command_id = ANY ($8) ORDER BY c.command_id FOR UPDATE
),
lost AS MATERIALIZED (
  SELECT l.place, min(l.command_id) AS command_id
  FROM lease AS l JOIN t USING (place) LEFT JOIN found AS f USING (execution_id)
    LEFT JOIN held AS h USING (command_id, epoch, owner)
  WHERE h.state IS DISTINCT FROM 'leased' OR h.execution IS DISTINCT FROM f.number
  GROUP BY l.place
),
fine AS MATERIALIZED (
  SELECT t.*, coalesce(b.number, f.number) AS number, f.status AS before,
    coalesce(b.family, f.family) AS family
  FROM t LEFT JOIN begun AS b USING (execution_id)
    LEFT JOIN found AS f USING (execution_id) LEFT JOIN lost USING (place)
  WHERE lost.place IS NULL
    AND CASE t.after WHEN 0 THEN b.number IS NOT NULL
      ELSE f.last_seq = t.after AND f.status <> 'quarantined' END
),
appended AS (
  INSERT INTO batch (execution, last_seq, events, dictionary, hash, body)
  SELECT fine.number, e.last_seq, e.events, e.dictionary, e.hash, e.body
  FROM unnest($11::integer[], $12::integer[], $13::bytea[], $49::smallint[],
    $50::smallint[], $14::bytea[])
    AS e(place, last_seq, hash, events, dictionary, body) JOIN fine USING (place)
),
advanced AS (
  UPDATE execution AS x SET last_seq = fine.after + fine.events, status = fine.status,
    last_hash = fine.hash, summary = fine.summary
  FROM fine WHERE x.number = fine.number AND fine.after > 0
),
planned AS (
  INSERT INTO command (command_id, execution, rank, pool, state, not_before,
    epoch, owner, expires_at, together, family)
  SELECT c.command_id, fine.number, c.rank, c.pool, c.state, c.not_before,
    c.epoch, c.owner, c.expires_at, c.together, fine.family
  FROM unnest($15::integer[], $16::text[], $17::bigint[], $18::text[], $19::text[],
    $20::double precision[], $21::integer[], $22::text[], $23::double precision[],
    $46::text[])
    AS c(place, command_id, rank, pool, state, not_before, epoch, owner, expires_at,
      together)
    JOIN fine USING (place)
  ON CONFLICT (command_id) DO NOTHING
),
-- part: counting
counted AS (
  UPDATE command AS c SET reported = r.number
  FROM unnest($42::integer[], $43::text[], $44::integer[])
    AS r(place, command_id, number) JOIN fine USING (place)
  WHERE c.command_id = r.command_id AND c.command_id <> ALL ($25)
),
-- part: steering
-- Only an open execution offers its commands; a finished one never will again, and its
-- commands go. An execution that was open before has no held commands: a search for them
-- would cost every commit a scan.
steered AS (
  UPDATE command AS c SET expires_at = NULL, owner = NULL,
    state = CASE fine.offers WHEN 'open' THEN 'ready' ELSE 'held' END
  FROM fine
  WHERE c.execution = fine.number AND c.command_id <> ALL ($25)
    AND c.execution = ANY (ARRAY(SELECT number FROM fine))  -- never all that is open
    AND NOT (fine.offers = 'open' AND fine.before IN ('running', 'waiting'))
    AND c.state IS NOT NULL
    AND CASE fine.offers WHEN 'held' THEN c.state = 'ready'
      WHEN 'open' THEN c.state = 'held' END
),
cleared AS (
  DELETE FROM command AS c USING fine
  WHERE c.execution = fine.number AND fine.offers = 'over'
    AND c.command_id <> ALL ($25) AND c.state IS NOT NULL
    AND c.execution = ANY (ARRAY(SELECT number FROM fine))
),
ended AS (
  DELETE FROM timer AS r USING fine
  WHERE r.execution = fine.number AND fine.offers = 'over' AND r.kind <> 'finished'
    AND r.execution = ANY (ARRAY(SELECT number FROM fine))
),
-- part: timing
disarmed AS (
  DELETE FROM timer AS r
  USING unnest($28::integer[], $29::text[]) AS d(place, timer_id) JOIN fine USING (place)
  WHERE r.execution = fine.number AND r.timer_id = d.timer_id
),
armed AS (
  INSERT INTO timer (execution, timer_id, due_at, kind)
  SELECT fine.number, a.timer_id, a.due_at, a.kind
  FROM unnest($30::integer[], $31::text[], $32::double precision[], $33::text[])
    AS a(place, timer_id, due_at, kind) JOIN fine USING (place)
  ON CONFLICT (execution, timer_id)
  DO UPDATE SET due_at = excluded.due_at, kind = excluded.kind
),
notified AS (
  INSERT INTO timer (execution, timer_id, due_at, kind)
  SELECT x.number, n.timer_id, n.due_at, n.kind
  FROM unnest($37::integer[], $38::text[], $39::text[], $40::double precision[],
    $41::text[]) AS n(place, execution_id, timer_id, due_at, kind)
    JOIN fine USING (place)
    JOIN execution AS x ON x.execution_id = n.execution_id
      AND x.status NOT IN ('completed', 'failed', 'cancelled')
  ON CONFLICT (execution, timer_id)
  DO UPDATE SET due_at = excluded.due_at, kind = excluded.kind
),
kept AS (
  INSERT INTO snapshot (execution, seq, body)
  SELECT fine.number, fine.after + fine.events, s.body
  FROM unnest($34::integer[], $35::bytea[]) AS s(place, body) JOIN fine USING (place)
  ON CONFLICT (execution) DO UPDATE SET seq = excluded.seq, body = excluded.body
),
-- part: all
-- The state '' ends the command. Only a leased command can be released.
change AS MATERIALIZED (
  SELECT n.*
  FROM unnest($24::integer[], $25::text[], $26::text[], $27::double precision[],
    $48::bigint[])
    AS n(place, command_id, state, not_before, rank) JOIN fine USING (place)
),
changed AS (
  UPDATE command AS c SET state = n.state, expires_at = NULL, owner = NULL,
    not_before = coalesce(n.not_before, c.not_before),
    rank = coalesce(n.rank, c.rank)
  FROM change AS n
  WHERE n.state <> '' AND c.command_id = n.command_id AND c.state IS NOT NULL
    AND (n.not_before IS NOT NULL OR c.state = 'leased')
),
gone AS (
  DELETE FROM command AS c USING change AS n
  WHERE n.state = '' AND c.command_id = n.command_id
)
SELECT t.place, coalesce(f.last_seq, 0) AS last_seq, lost.command_id AS lost
FROM t LEFT JOIN fine USING (place) LEFT JOIN found AS f ON f.execution_id = t.execution_id
  LEFT JOIN lost ON lost.place = t.place
WHERE fine.place IS NULL
