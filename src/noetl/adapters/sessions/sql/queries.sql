-- name: create
INSERT INTO session (key, user_id, expires_at, value) VALUES ($1, $2, $3, $4)
RETURNING revision

-- name: get
SELECT revision, value FROM session WHERE key = $1 ORDER BY revision DESC LIMIT 1

-- name: touch
INSERT INTO session (key, user_id, expires_at, value)
SELECT $1, $2, $3, $4
WHERE (SELECT max(revision) FROM session WHERE key = $1) = $5
RETURNING revision

-- name: invalidate
INSERT INTO session (key, user_id, expires_at, value)
SELECT key, user_id, expires_at, NULL FROM session AS last
WHERE key = $1 AND value IS NOT NULL
  AND revision = (SELECT max(revision) FROM session WHERE key = last.key)

-- name: invalidate_user
INSERT INTO session (key, user_id, expires_at, value)
SELECT key, user_id, expires_at, NULL FROM session AS last
WHERE user_id = $1 AND value IS NOT NULL
  AND revision = (SELECT max(revision) FROM session WHERE key = last.key)
RETURNING revision

-- name: list_by_user
SELECT key, revision, value FROM session AS last
WHERE user_id = $1 AND value IS NOT NULL
  AND revision = (SELECT max(revision) FROM session WHERE key = last.key)

-- name: history
SELECT revision, value FROM (
  SELECT revision, value FROM session WHERE key = $1 ORDER BY revision DESC LIMIT $2
) ORDER BY revision

-- name: clean
DELETE FROM session WHERE expires_at < $1

-- name: forget
DELETE FROM session WHERE key = $1 AND revision <= (
  SELECT revision FROM session WHERE key = $1 ORDER BY revision DESC LIMIT 1 OFFSET $2
)
