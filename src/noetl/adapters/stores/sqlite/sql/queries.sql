-- Queries of the store, by name.

-- name: head
SELECT number, last_seq, last_hash, summary, status, family FROM execution
WHERE execution_id = ?

-- name: holds
SELECT 1 FROM command
WHERE command_id = ? AND state = 'leased' AND epoch = ? AND owner = ?
  AND execution = (SELECT number FROM execution
    WHERE execution_id = ? AND status <> 'quarantined')

-- name: begin_execution
INSERT INTO execution
  (execution_id, status, last_seq, last_hash, summary, request_key, family)
VALUES (?, ?, 0, x'', ?, ?, ?)

-- name: family
SELECT coalesce(family, number) FROM execution WHERE execution_id = ?

-- name: count_family
SELECT count(*) FROM (
  SELECT 1 FROM execution
  WHERE family = (SELECT coalesce(family, number) FROM execution WHERE execution_id = ?)
    AND status NOT IN ('completed', 'failed', 'cancelled')
  LIMIT ?
)

-- name: request
SELECT execution_id FROM execution WHERE request_key = ?

-- name: append
INSERT INTO batch (key, hash, events, dictionary, body)
VALUES /* row */ (?, ?, ?, ?, ?) /* end */

-- name: advance
UPDATE execution SET last_seq = ?, last_hash = ? WHERE number = ?

-- name: summarize
-- Separate from advance: assigning status writes its index, even if unchanged.
UPDATE execution SET status = ?, summary = ? WHERE number = ?

-- name: set_status
UPDATE execution SET status = ?, summary = ?
WHERE number = ? AND status NOT IN ('completed', 'failed', 'cancelled')

-- name: keep_playbook
INSERT INTO playbook_line (key, body) VALUES (?, ?) ON CONFLICT (key) DO NOTHING

-- name: playbook
SELECT body FROM playbook_line WHERE key = ?

-- name: keep
INSERT INTO snapshot (execution, seq, body) VALUES (?, ?, ?)
ON CONFLICT (execution) DO UPDATE SET seq = excluded.seq, body = excluded.body

-- name: snapshot
SELECT s.seq, s.body
FROM snapshot AS s JOIN execution AS x ON x.number = s.execution
WHERE x.execution_id = ?

-- name: plan
INSERT INTO command
  (command_id, execution, family, rank, pool, together, state, not_before)
VALUES /* row */ (?, ?, ?, ?, ?, ?, ?, ?) /* end */
ON CONFLICT (command_id) DO NOTHING

-- name: plan_leased
-- For a command that is leased as it is planned.
INSERT INTO command (command_id, execution, family, rank, pool, together, state,
  not_before, epoch, owner, boot_id, expires_at)
VALUES /* row */ (?, ?, ?, ?, ?, ?, 'leased', 0, ?, ?, ?, ?) /* end */
ON CONFLICT (command_id) DO UPDATE SET state = 'leased', epoch = excluded.epoch,
  owner = excluded.owner, boot_id = excluded.boot_id,
  expires_at = excluded.expires_at, reported = -1

-- name: end
DELETE FROM command WHERE command_id IN (/* row */ ? /* end */)

-- name: release
UPDATE command SET state = 'ready', owner = NULL, boot_id = NULL, expires_at = NULL
WHERE command_id = ? AND state = 'leased'

-- name: reschedule
UPDATE command SET state = ?, not_before = ?, rank = coalesce(?, rank),
  owner = NULL, boot_id = NULL, expires_at = NULL
WHERE command_id = ? AND state IS NOT NULL

-- name: disarm
DELETE FROM timer WHERE execution = ? AND timer_id = ?

-- name: disarm_all
DELETE FROM timer WHERE execution = ?

-- name: disarm_over
DELETE FROM timer WHERE execution = ? AND kind <> 'finished'

-- name: disarm_by_name
DELETE FROM timer WHERE timer_id = ?
  AND execution = (SELECT number FROM execution WHERE execution_id = ?)

-- name: arm
INSERT INTO timer (execution, timer_id, due_at, kind) VALUES (?, ?, ?, ?)
ON CONFLICT (execution, timer_id)
DO UPDATE SET due_at = excluded.due_at, kind = excluded.kind

-- name: notify
INSERT INTO timer (execution, timer_id, due_at, kind)
SELECT number, ?, ?, ? FROM execution
WHERE execution_id = ? AND status NOT IN ('completed', 'failed', 'cancelled')
ON CONFLICT (execution, timer_id)
DO UPDATE SET due_at = excluded.due_at, kind = excluded.kind

-- name: make_due
-- By this index only due rows are read: many commands may be delayed.
UPDATE command INDEXED BY command_delayed SET state = 'ready'
WHERE state = 'delayed' AND not_before <= ?

-- name: is_offered
SELECT 1 FROM command WHERE state = 'ready' AND pool = ? LIMIT 1

-- name: next_due
SELECT min(not_before) FROM command INDEXED BY command_delayed WHERE state = 'delayed'

-- name: next_family
SELECT c.family FROM command AS c
WHERE c.state = 'ready' AND c.pool = ? AND c.family > ?
  AND (c.together IS NULL OR NOT EXISTS (
    SELECT 1 FROM keeper AS k
    WHERE k.name = c.together AND k.owner <> ? AND k.expires_at > ?))
ORDER BY c.family LIMIT 1

-- name: next_execution
SELECT c.execution, x.execution_id, x.status
FROM command AS c JOIN execution AS x ON x.number = c.execution
WHERE c.state = 'ready' AND c.pool = ? AND c.family = ? AND c.execution > ?
  AND (c.together IS NULL OR NOT EXISTS (
    SELECT 1 FROM keeper AS k
    WHERE k.name = c.together AND k.owner <> ? AND k.expires_at > ?))
ORDER BY c.execution LIMIT 1

-- name: ready_commands
SELECT c.command_id, c.epoch, c.together FROM command AS c
WHERE c.state = 'ready' AND c.pool = ? AND c.family = ? AND c.execution = ?
  AND (c.together IS NULL OR NOT EXISTS (
    SELECT 1 FROM keeper AS k
    WHERE k.name = c.together AND k.owner <> ? AND k.expires_at > ?))
ORDER BY c.rank LIMIT ?

-- name: end_ready
DELETE FROM command
WHERE state = 'ready' AND pool = ? AND family = ? AND execution = ?

-- name: lease
-- Below zero, reported counts claims in a row without a report.
UPDATE command SET state = 'leased', epoch = ?, owner = ?, boot_id = ?, expires_at = ?,
  reported = min(reported, 0) - 1
WHERE command_id = ?

-- name: forgive
UPDATE command SET reported = max(reported, 0)
WHERE command_id = ? AND state = 'leased' AND epoch = ? AND owner = ?

-- name: count
UPDATE command SET reported = ? WHERE command_id = ?

-- name: command
SELECT x.execution_id, c.pool, c.epoch, c.owner, c.state IS 'leased', c.reported
FROM command AS c JOIN execution AS x ON x.number = c.execution
WHERE c.command_id = ?

-- name: held
SELECT c.command_id, x.execution_id, c.owner, c.epoch
FROM command AS c JOIN execution AS x ON x.number = c.execution
WHERE c.state = 'leased' AND c.owner = ?

-- name: count_commands
SELECT pool, state, count(*) FROM command
WHERE state IN ('ready', 'leased') GROUP BY state, pool

-- name: oldest_ready
SELECT pool, min(not_before) FROM command WHERE state = 'ready' GROUP BY pool

-- name: count_delayed
SELECT pool, count(*) FROM (
  SELECT pool FROM command INDEXED BY command_delayed WHERE state = 'delayed' LIMIT ?)
GROUP BY pool

-- name: parked
-- Waits for an answer are due last, so that they are found before short delays.
SELECT x.execution_id, x.summary, x.last_seq FROM (
  SELECT DISTINCT execution FROM (
    SELECT execution FROM command INDEXED BY command_delayed WHERE state = 'delayed'
    ORDER BY not_before DESC LIMIT ?)) AS w
CROSS JOIN execution AS x ON x.number = w.execution
WHERE x.status IN ('running', 'waiting', 'paused') ORDER BY x.number DESC

-- name: renew
UPDATE command SET expires_at = ?
WHERE command_id = ? AND state = 'leased' AND epoch = ? AND owner = ?
  AND execution = (SELECT number FROM execution
    WHERE execution_id = ? AND status <> 'quarantined')

-- name: keep_affinity
INSERT INTO keeper (name, owner, expires_at) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at

-- name: keep_on
UPDATE keeper SET expires_at = ?
WHERE owner = ? AND name = (SELECT together FROM command WHERE command_id = ?)

-- name: forget_keepers
DELETE FROM keeper WHERE expires_at <= ?

-- name: expire
UPDATE command SET state = 'ready', owner = NULL, boot_id = NULL, expires_at = NULL
WHERE state = 'leased' AND expires_at <= ?

-- name: expire_other_boots
UPDATE command SET state = 'ready', owner = NULL, boot_id = NULL, expires_at = NULL
WHERE state = 'leased' AND boot_id <> ?

-- name: due_timers
SELECT x.execution_id, t.timer_id, t.due_at, t.kind
FROM timer AS t JOIN execution AS x ON x.number = t.execution
WHERE t.due_at <= ? AND t.kind <> 'export' AND x.status <> 'quarantined'
ORDER BY t.due_at, t.execution, t.timer_id

-- name: waiting_exports
SELECT x.execution_id FROM timer AS t JOIN execution AS x ON x.number = t.execution
WHERE t.kind = 'export' AND t.timer_id = ? AND t.due_at <= ? ORDER BY t.due_at LIMIT ?

-- name: postpone_export
UPDATE timer SET due_at = ? WHERE timer_id = ?
  AND execution = (SELECT number FROM execution WHERE execution_id = ?)

-- name: count_exports
SELECT f.timer_id, f.waiting, x.execution_id FROM (
  SELECT timer_id, count(*) AS waiting, min(execution) AS oldest FROM timer
  WHERE kind = 'export' GROUP BY timer_id) AS f
JOIN execution AS x ON x.number = f.oldest

-- name: rows
-- Logs of older versions have a row for each event; these rows are read as they are.
SELECT key, hash, 1, NULL, body FROM event WHERE key > ?1 AND key <= ?2
UNION ALL
SELECT key, hash, events, dictionary, body FROM batch WHERE key > ?1 AND key <= ?2
ORDER BY key

-- name: tally
SELECT t.seq, t.body FROM tally AS t JOIN execution AS x ON x.number = t.execution
WHERE x.execution_id = ? AND t.version = ? AND t.seq <= ? ORDER BY t.seq DESC LIMIT 1

-- name: keep_tally
INSERT INTO tally (execution, version, seq, body)
SELECT number, ?2, ?3, ?4 FROM execution WHERE execution_id = ?1 AND last_seq >= ?3
ON CONFLICT (execution, version, seq) DO UPDATE SET body = excluded.body

-- name: remove_tallies
DELETE FROM tally WHERE execution = ?

-- name: resolve
SELECT execution_id FROM execution WHERE execution_id >= ? AND execution_id < ?
ORDER BY execution_id LIMIT ?

-- name: resolve_end
SELECT execution_id FROM execution WHERE substr(execution_id, -length(?1)) = ?1
ORDER BY execution_id LIMIT ?2

-- name: newest_below
SELECT number FROM execution WHERE execution_id < ? ORDER BY execution_id DESC LIMIT 1

-- name: has_open
SELECT 1 FROM execution
WHERE status IN ('running', 'waiting', 'paused', 'quarantined') LIMIT 1

-- name: heads
SELECT number, last_seq, execution_id, summary FROM execution WHERE number > ?
ORDER BY number LIMIT ?

-- name: find
SELECT execution_id, summary FROM execution WHERE number < ? ORDER BY number DESC LIMIT ?

-- name: find_by_status
SELECT execution_id, summary FROM execution WHERE status = ? AND number < ?
ORDER BY number DESC LIMIT ?

-- name: find_by_labels
-- The first label leads; the others (?5, a JSON object) are looked up one by one.
SELECT x.execution_id, x.summary
FROM label AS l CROSS JOIN execution AS x ON x.number = l.execution
WHERE l.name = ?1 AND l.value = ?2 AND l.execution < ?3
  AND (?4 IS NULL OR x.status = ?4)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(?5) AS w
    WHERE NOT EXISTS (
      SELECT 1 FROM label AS o
      WHERE o.name = w.key AND o.value = w.value AND o.execution = l.execution))
ORDER BY l.execution DESC LIMIT ?6

-- name: record
SELECT number, last_seq, status, request_key, summary FROM execution
WHERE execution_id = ?

-- name: record_commands
-- The ids of its commands begin with the id of the execution.
SELECT command_id, state, not_before, epoch, owner, expires_at FROM command
WHERE command_id >= ? AND command_id < ? AND state IS NOT NULL

-- name: record_timers
SELECT timer_id, due_at, kind FROM timer WHERE execution = ?

-- name: record_tallies
SELECT version, seq, body FROM tally WHERE execution = ? ORDER BY version, seq

-- name: record_slot
SELECT key, most, queued FROM place WHERE execution = ?

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
WHERE p.queued = 0 AND x.status NOT IN ('completed', 'failed', 'cancelled')
GROUP BY p.key HAVING count(*) > max(p.most)
UNION ALL
SELECT 'execution', request_key, count(*) || ' executions answer one request'
FROM execution WHERE request_key IS NOT NULL GROUP BY request_key HAVING count(*) > 1
LIMIT ?

-- name: idle
-- Open executions, and whether nothing is there that could continue them.
SELECT x.number, x.execution_id, x.last_seq,
  NOT EXISTS (
    SELECT 1 FROM command AS c WHERE c.command_id >= x.execution_id || '-'
      AND c.command_id < x.execution_id || '.' AND c.state IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM timer AS t WHERE t.execution = x.number)
  AND NOT EXISTS (
    SELECT 1 FROM place AS p WHERE p.execution = x.number AND p.queued = 1)
FROM (
  SELECT * FROM (
    SELECT number, execution_id, last_seq FROM execution
    WHERE status = 'running' AND number > ?1 ORDER BY number LIMIT ?2) AS r
  UNION ALL
  SELECT * FROM (
    SELECT number, execution_id, last_seq FROM execution
    WHERE status = 'waiting' AND number > ?1 ORDER BY number LIMIT ?2) AS w
  ORDER BY number LIMIT ?2
) AS x ORDER BY x.number

-- name: remove_events
DELETE FROM event WHERE key > ? AND key <= ?

-- name: remove_batches
DELETE FROM batch WHERE key > ? AND key <= ?

-- name: remove_commands
-- The ids of its commands begin with the id of the execution.
DELETE FROM command WHERE command_id >= ? AND command_id < ?

-- name: remove_snapshot
DELETE FROM snapshot WHERE execution = ?

-- name: remove_execution
DELETE FROM execution WHERE number = ?

-- name: take_slot
INSERT INTO place (execution, key, most, queued) VALUES (?, ?, ?, ?)
ON CONFLICT (execution) DO UPDATE SET queued = excluded.queued

-- name: leave_slot
DELETE FROM place WHERE execution = ?

-- name: slots_in_front
-- Executions that hold a slot, and the first one that waits.
SELECT x.execution_id, p.most, p.queued
FROM place AS p JOIN execution AS x ON x.number = p.execution
WHERE p.key = ?1 AND p.queued = 0
  AND x.status NOT IN ('completed', 'failed', 'cancelled')
UNION ALL
SELECT * FROM (
  SELECT x.execution_id, p.most, p.queued
  FROM place AS p JOIN execution AS x ON x.number = p.execution
  WHERE p.key = ?1 AND p.queued = 1
    AND x.status NOT IN ('completed', 'failed', 'cancelled')
  ORDER BY p.execution LIMIT 1
)

-- name: slots
SELECT x.execution_id, p.most, p.queued
FROM place AS p JOIN execution AS x ON x.number = p.execution
WHERE p.key = ? AND x.status NOT IN ('completed', 'failed', 'cancelled')
ORDER BY p.execution

-- name: leave_call_slots
DELETE FROM call_slot WHERE command_id = ?

-- name: end_call_slots
-- Slots of leases that have ended.
DELETE FROM call_slot WHERE key = ? AND NOT EXISTS (
  SELECT 1 FROM command AS c
  WHERE c.command_id = call_slot.command_id AND c.state = 'leased'
    AND c.epoch = call_slot.epoch)

-- name: count_call_slots
SELECT count(*) FROM call_slot WHERE key = ?

-- name: take_call_slot
INSERT INTO call_slot (key, command_id, epoch) VALUES (?, ?, ?)

-- name: call_line
SELECT due, told FROM call_line WHERE key = ?

-- name: set_call_line
INSERT INTO call_line (key, due, told) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET due = excluded.due, told = excluded.told

-- name: forget_call_lines
DELETE FROM call_line WHERE told < ?1 AND due < ?1

-- name: roots
SELECT number, last_seq, execution_id, summary FROM execution
WHERE number > ? AND family IS NULL ORDER BY number LIMIT ?

-- name: kin
-- Members of a family, the newest first, below a number.
SELECT number, last_seq, execution_id, summary FROM execution
WHERE family = ? AND number < ? ORDER BY number DESC LIMIT ?

-- name: is_held
-- Whether a timer of an execution is armed, or a fork of it is in another family.
SELECT EXISTS (SELECT 1 FROM timer WHERE execution = ?1) OR EXISTS (
  SELECT 1 FROM fork AS f JOIN execution AS y ON y.number = f.execution
  WHERE f.origin = ?1 AND coalesce(y.family, y.number) <> ?2)

-- name: own_retention
SELECT body FROM playbook_line WHERE instr(body, '"retention":')

-- name: take_retention
INSERT INTO retention (only_one, owner, expires_at) VALUES (1, ?1, ?2)
ON CONFLICT (only_one) DO UPDATE SET owner = ?1, expires_at = ?2
WHERE retention.owner = ?1 OR retention.expires_at <= ?3
RETURNING plan

-- name: plan_removal
UPDATE retention SET plan = ?2 WHERE owner = ?1

-- name: restore_event
INSERT INTO event (key, hash, body) VALUES (?, ?, ?)

-- name: has_turn
SELECT 1 FROM retention WHERE owner = ?

-- name: forks_of
SELECT execution FROM fork WHERE origin = ?
