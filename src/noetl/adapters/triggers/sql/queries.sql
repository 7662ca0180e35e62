-- name: add
INSERT INTO triggers
  (name, definition, created_at, created_by, credential, paused, decided, next_at,
   pending, last_slot, last_execution, revision, kind, owner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT DO NOTHING
RETURNING name

-- name: get
SELECT * FROM triggers WHERE name = $1

-- name: list_all
SELECT * FROM triggers ORDER BY name

-- name: replace
UPDATE triggers SET definition = $3, paused = $4, decided = $5, next_at = $6,
  owner = $7, revision = revision + 1
WHERE name = $1 AND revision = $2
RETURNING name

-- name: remove
DELETE FROM triggers WHERE name = $1 RETURNING name

-- name: on_finished
SELECT * FROM triggers WHERE kind = 'finished' AND NOT paused ORDER BY name

-- name: due
SELECT * FROM triggers
WHERE (next_at IS NOT NULL AND next_at <= $1 AND NOT paused) OR pending <> '[]'
ORDER BY next_at, name

-- name: plan
UPDATE triggers SET pending = $3, decided = $4, next_at = $5, revision = revision + 1
WHERE name = $1 AND revision = $2 AND pending = '[]'
RETURNING name

-- name: settle
UPDATE triggers SET pending = '[]', last_slot = $3, last_execution = $4,
  revision = revision + 1
WHERE name = $1 AND revision = $2
RETURNING name

-- name: add_backfill
INSERT INTO backfill
  (backfill_id, name, since, until, at_once, total, progress, created_at, created_by,
   state, revision)
SELECT $1, name, $3, $4, $5, $6, $7, $8, $9, $10, $11 FROM triggers WHERE name = $2
RETURNING backfill_id

-- name: get_backfill
SELECT * FROM backfill WHERE backfill_id = $1

-- name: list_backfills
SELECT * FROM backfill ORDER BY created_at DESC, backfill_id DESC

-- name: list_backfills_of
SELECT * FROM backfill WHERE name = $1 ORDER BY created_at DESC, backfill_id DESC

-- name: open_backfills
SELECT * FROM backfill WHERE is_open ORDER BY created_at, backfill_id

-- name: move
UPDATE backfill SET state = $3, progress = $4, is_open = $5, revision = revision + 1
WHERE backfill_id = $1 AND revision = $2
RETURNING backfill_id
