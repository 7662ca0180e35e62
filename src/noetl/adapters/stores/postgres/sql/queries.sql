-- Queries of the store, by name. Commits of several transitions are in commit.sql, and
-- functions of the database in functions.sql.

-- name: commit_plain
SELECT commit_plain($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
  $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)

-- name: last_hash
SELECT last_hash FROM execution WHERE execution_id = $1

-- name: hash_at
SELECT e.hash FROM batch AS e JOIN execution AS x ON x.number = e.execution
WHERE x.execution_id = $1 AND e.last_seq = $2

-- name: check_writable
-- A read-only node refuses the first statement; the message is a record that the commit
-- writes to the disk, and no row.
DELETE FROM timer WHERE false;
SELECT pg_logical_emit_message(true, 'noetl', '');

-- name: claim
SELECT * FROM claim($1, $2, $3, $4, $5, $6, $7, $8)

-- name: claim_waits
SELECT * FROM claim_waits($1, $2, $3, $4, $5, $6, $7, $8)

-- name: renew
SELECT * FROM renew_leases($1, $2, $3, $4, $5)

-- name: forgive
UPDATE command SET reported = greatest(reported, 0)
WHERE command_id = $1 AND state = 'leased' AND epoch = $2 AND owner = $3

-- name: commands
SELECT c.command_id, x.execution_id, c.pool, c.epoch, c.owner,
  coalesce(c.state = 'leased', false), c.reported
FROM command AS c JOIN execution AS x ON x.number = c.execution
WHERE c.command_id = ANY ($1::text[])

-- name: held
SELECT c.command_id, x.execution_id, c.owner, c.epoch FROM command AS c
JOIN execution AS x ON x.number = c.execution
WHERE c.state = 'leased' AND c.owner = $1 ORDER BY c.command_id

-- name: count_commands
SELECT pool, state, count(*) FROM command
WHERE state = 'ready' OR state = 'leased' GROUP BY state, pool

-- name: oldest_ready
SELECT pool, min(not_before) FROM command WHERE state = 'ready' GROUP BY pool

-- name: count_delayed
SELECT pool, count(*) FROM (
  SELECT pool FROM command WHERE state = 'delayed' LIMIT $1) AS found
GROUP BY pool

-- name: parked
-- Waits for an answer are due last, so that they are found before short delays.
SELECT x.execution_id, x.summary, x.last_seq FROM (
  SELECT DISTINCT execution FROM (
    SELECT execution FROM command WHERE state = 'delayed'
    ORDER BY not_before DESC LIMIT $1) AS found) AS w
JOIN execution AS x ON x.number = w.execution
WHERE x.status IN ('running', 'waiting', 'paused') ORDER BY x.number DESC

-- name: expire_leases
SELECT expire_leases($1)

-- name: due_timers
SELECT x.execution_id, t.timer_id, t.due_at, t.kind FROM timer AS t
JOIN execution AS x ON x.number = t.execution
WHERE t.due_at <= $1 AND t.kind <> 'export' AND x.status <> 'quarantined'
ORDER BY t.due_at, t.execution, t.timer_id

-- name: claim_exports
WITH found AS (
  SELECT execution FROM timer
  WHERE kind = 'export' AND timer_id = $1 AND due_at <= $2
  ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE timer AS t SET due_at = $3 FROM found, execution AS x
WHERE t.execution = found.execution AND t.timer_id = $1 AND x.number = t.execution
RETURNING x.execution_id

-- name: postpone_exports
UPDATE timer AS t SET due_at = $3 FROM execution AS x
WHERE x.execution_id = ANY ($2) AND t.execution = x.number AND t.timer_id = $1

-- name: end_exports
DELETE FROM timer AS t USING execution AS x
WHERE x.execution_id = ANY ($2) AND t.execution = x.number AND t.timer_id = $1

-- name: count_exports
SELECT f.timer_id, f.waiting, x.execution_id FROM (
  SELECT timer_id, count(*) AS waiting, min(execution) AS oldest FROM timer
  WHERE kind = 'export' GROUP BY timer_id) AS f
JOIN execution AS x ON x.number = f.oldest

-- name: disarm
DELETE FROM timer AS t USING execution AS x WHERE x.number = t.execution
AND t.timer_id = $1 AND x.execution_id = $2

-- name: keep_playbooks
INSERT INTO playbook_line (key, body) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (key) DO NOTHING

-- name: playbooks
SELECT key, body FROM playbook_line WHERE key = ANY ($1::text[])

-- name: set_status
SELECT mark($1, $2, $3)

-- name: head
SELECT number, last_seq, last_hash, summary FROM execution WHERE execution_id = $1

-- name: rows
-- The rows that hold the events after $2 and up to $3, of at most $4 events each; at most
-- $5 of them. Logs of older versions have a row for each event, which is read as it is.
-- The part of each table stands for itself: so no partition is read but the execution's.
SELECT x.last_seq, r.* FROM execution AS x LEFT JOIN LATERAL (
  (SELECT e.seq AS last_seq, e.hash, 1::smallint, NULL::smallint, e.body
  FROM event AS e
  WHERE e.execution = x.number AND e.seq > $2 AND e.seq <= $3 AND e.seq <= x.last_seq
  ORDER BY e.seq LIMIT $5)
  UNION ALL
  (SELECT b.last_seq, b.hash, b.events, b.dictionary, b.body FROM batch AS b
  WHERE b.execution = x.number AND b.last_seq > $2
    AND b.last_seq < $3::bigint + $4::integer AND b.last_seq - b.events < $3
    AND b.last_seq <= x.last_seq
  ORDER BY b.last_seq LIMIT $5)
) AS r ON true
WHERE x.execution_id = $1 ORDER BY r.last_seq LIMIT $5

-- name: add_partitions
SELECT add_partitions()

-- name: tally
SELECT t.seq, t.body FROM tally AS t JOIN execution AS x ON x.number = t.execution
WHERE x.execution_id = $1 AND t.version = $2 AND t.seq <= $3
ORDER BY t.seq DESC LIMIT 1

-- name: keep_tally
INSERT INTO tally (execution, version, seq, body)
SELECT number, $2, $3, $4 FROM execution WHERE execution_id = $1 AND last_seq >= $3
ON CONFLICT (execution, version, seq) DO UPDATE SET body = excluded.body

-- name: snapshot
SELECT s.seq, s.body FROM snapshot AS s JOIN execution AS x
ON x.number = s.execution WHERE x.execution_id = $1

-- name: find
SELECT execution_id, summary FROM execution WHERE number < $1
AND ($3::text IS NULL OR status = $3) ORDER BY number DESC LIMIT $2

-- name: find_by_labels
-- The first label leads; the others ($5, $6) are looked up one by one.
SELECT x.execution_id, x.summary
FROM label AS l JOIN execution AS x ON x.number = l.execution
WHERE l.name = $1 AND l.value = $2 AND l.execution < $3
AND ($4::text IS NULL OR x.status = $4)
AND NOT EXISTS (
  SELECT 1 FROM unnest($5::text[], $6::text[]) AS w(name, value)
  WHERE NOT EXISTS (
    SELECT 1 FROM label AS o
    WHERE o.name = w.name AND o.value = w.value AND o.execution = l.execution))
ORDER BY l.execution DESC LIMIT $7

-- name: newest_below
SELECT number FROM execution WHERE execution_id < $1
ORDER BY execution_id DESC LIMIT 1

-- name: request
SELECT execution_id FROM execution WHERE request_key = $1

-- name: resolve
SELECT execution_id FROM execution WHERE starts_with(execution_id, $1)
AND execution_id >= $1 ORDER BY execution_id LIMIT $2

-- name: resolve_end
SELECT execution_id FROM execution WHERE right(execution_id, length($1)) = $1
ORDER BY execution_id LIMIT $2

-- name: count_family
SELECT count(*) FROM (SELECT 1 FROM execution WHERE family = (
SELECT coalesce(family, number) FROM execution WHERE execution_id = $1)
AND status NOT IN ('completed', 'failed', 'cancelled') LIMIT $2) AS open

-- name: lock_key
SELECT pg_advisory_xact_lock(hashtextextended($1, 64))

-- name: slots
SELECT x.execution_id, p.most, p.queued, p.execution FROM place AS p
JOIN execution AS x ON x.number = p.execution WHERE p.key = $1
AND x.status NOT IN ('completed', 'failed', 'cancelled')
ORDER BY p.execution

-- name: slots_in_front
-- Executions that hold a slot, and the first one that waits.
SELECT x.execution_id, p.most, p.queued, p.execution FROM place AS p
JOIN execution AS x ON x.number = p.execution WHERE p.key = $1
AND x.status NOT IN ('completed', 'failed', 'cancelled') AND NOT p.queued
UNION ALL
SELECT * FROM (
  SELECT x.execution_id, p.most, p.queued, p.execution FROM place AS p
  JOIN execution AS x ON x.number = p.execution WHERE p.key = $1
  AND x.status NOT IN ('completed', 'failed', 'cancelled') AND p.queued
  ORDER BY p.execution LIMIT 1
) AS first

-- name: take_slot
INSERT INTO place (execution, key, most, queued)
SELECT number, $2, $3, $4 FROM execution WHERE execution_id = $1
ON CONFLICT (execution) DO UPDATE SET queued = excluded.queued

-- name: leave_slot
DELETE FROM place WHERE execution =
(SELECT number FROM execution WHERE execution_id = $1)

-- name: notify
INSERT INTO timer (execution, timer_id, due_at, kind)
SELECT number, $2, 0, 'place' FROM execution WHERE execution_id = $1
ON CONFLICT (execution, timer_id) DO UPDATE SET due_at = 0, kind = 'place'

-- name: holds
SELECT 1 FROM command AS c JOIN execution AS x ON x.number = c.execution
WHERE c.command_id = $1 AND c.epoch = $2 AND c.owner = $3 AND x.execution_id = $4
AND c.state = 'leased' AND x.status <> 'quarantined'

-- name: leave_call_slots
DELETE FROM call_slot WHERE command_id = $1

-- name: end_call_slots
-- Slots of leases that have ended.
DELETE FROM call_slot WHERE key = $1 AND NOT EXISTS (
  SELECT 1 FROM command AS c
  WHERE c.command_id = call_slot.command_id AND c.state = 'leased'
    AND c.epoch = call_slot.epoch)

-- name: count_call_slots
SELECT count(*) FROM call_slot WHERE key = $1

-- name: take_call_slot
INSERT INTO call_slot (key, command_id, epoch) VALUES ($1, $2, $3)

-- name: call_line
SELECT due, told FROM call_line WHERE key = $1

-- name: set_call_line
INSERT INTO call_line (key, due, told) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET due = excluded.due, told = excluded.told

-- name: forget_call_lines
-- Without waiting for others: they lock their rows in another order.
DELETE FROM call_line WHERE key = ANY (ARRAY(
  SELECT key FROM call_line WHERE told < $1 AND due < $1 LIMIT 100
  FOR UPDATE SKIP LOCKED))

-- name: idle
-- Open executions, and whether nothing is there that could continue them.
SELECT x.number, x.execution_id, x.last_seq,
  NOT EXISTS (
    SELECT 1 FROM command AS c WHERE c.command_id >= x.execution_id || '-'
      AND c.command_id < x.execution_id || '.' AND c.state IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM timer AS t WHERE t.execution = x.number)
  AND NOT EXISTS (
    SELECT 1 FROM place AS p WHERE p.execution = x.number AND p.queued)
FROM (
  SELECT * FROM (
    SELECT number, execution_id, last_seq FROM execution
    WHERE status = 'running' AND number > $1 ORDER BY number LIMIT $2) AS r
  UNION ALL
  SELECT * FROM (
    SELECT number, execution_id, last_seq FROM execution
    WHERE status = 'waiting' AND number > $1 ORDER BY number LIMIT $2) AS w
  ORDER BY number LIMIT $2
) AS x ORDER BY x.number

-- name: heads
SELECT number, last_seq, execution_id, summary FROM execution WHERE number > $1
ORDER BY number LIMIT $2

-- name: record
SELECT number, last_seq, status, request_key, summary FROM execution
WHERE execution_id = $1

-- name: record_commands
-- The ids of its commands begin with the id of the execution.
SELECT command_id, state, not_before, epoch, owner, expires_at FROM command
WHERE command_id >= $1 AND command_id < $2 AND state IS NOT NULL

-- name: record_timers
SELECT timer_id, due_at, kind FROM timer WHERE execution = $1

-- name: record_tallies
SELECT version, seq, body FROM tally WHERE execution = $1 ORDER BY version, seq

-- name: record_slot
SELECT key, most, queued FROM place WHERE execution = $1

-- name: strays
-- Tables are small: what is finished has no rows in them.
SELECT 'command', command_id, 'it belongs to no stored execution' FROM command AS c
WHERE state IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM execution AS x WHERE x.number = c.execution
    AND c.command_id >= x.execution_id || '-' AND c.command_id < x.execution_id || '.')
UNION ALL
SELECT 'timer', timer_id, 'it belongs to no stored execution' FROM timer AS t
WHERE NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.number = t.execution)
UNION ALL
SELECT 'place', p.key, count(*) || ' executions hold it, of ' || max(p.most)
FROM place AS p JOIN execution AS x ON x.number = p.execution
WHERE NOT p.queued AND x.status NOT IN ('completed', 'failed', 'cancelled')
GROUP BY p.key HAVING count(*) > max(p.most)
LIMIT $1

-- name: families
-- Roots above $1, at most $2 of them, and the newest $3 members of each.
SELECT r.number AS root, m.number, m.last_seq, m.execution_id, m.summary,
  EXISTS (SELECT 1 FROM timer AS t WHERE t.execution = m.number) OR EXISTS (
    SELECT 1 FROM fork AS f JOIN execution AS y ON y.number = f.execution
    WHERE f.origin = m.number AND coalesce(y.family, y.number) <> r.number) AS is_held
FROM (
  SELECT number FROM execution WHERE number > $1 AND family IS NULL
  ORDER BY number LIMIT $2
) AS r CROSS JOIN LATERAL (
  (SELECT number, last_seq, execution_id, summary FROM execution AS x
  WHERE x.family = r.number ORDER BY x.number DESC LIMIT $3)
  UNION ALL
  SELECT number, last_seq, execution_id, summary FROM execution AS x
  WHERE x.number = r.number
) AS m ORDER BY r.number, m.number DESC

-- name: kin
-- Members of a family, the newest first, below $2.
SELECT m.number, m.last_seq, m.execution_id, m.summary,
  EXISTS (SELECT 1 FROM timer AS t WHERE t.execution = m.number) OR EXISTS (
    SELECT 1 FROM fork AS f JOIN execution AS y ON y.number = f.execution
    WHERE f.origin = m.number AND coalesce(y.family, y.number) <> $1) AS is_held
FROM execution AS m WHERE m.family = $1 AND m.number < $2
ORDER BY m.number DESC LIMIT $3

-- name: own_retention
SELECT body FROM playbook_line WHERE strpos(body, '"retention":') > 0

-- name: take_retention
INSERT INTO retention AS r (owner, expires_at) VALUES ($1, $2)
ON CONFLICT (only_one) DO UPDATE SET owner = $1, expires_at = $2
WHERE r.owner = $1 OR r.expires_at <= $3
RETURNING plan

-- name: plan_removal
UPDATE retention SET plan = $2 WHERE owner = $1 RETURNING true

-- name: lock_turn
SELECT true FROM retention WHERE owner = $1 FOR UPDATE

-- name: are_stored
SELECT EXISTS (SELECT 1 FROM execution WHERE execution_id = ANY ($1::text[]))

-- name: remove_executions
SELECT remove_executions($1)

-- name: drop_partition
SELECT drop_partition()
