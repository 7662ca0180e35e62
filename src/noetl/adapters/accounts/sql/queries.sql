-- name: add
INSERT INTO account
  (user_id, name, grants, created_at, email, display_name, password_hash,
   issuer, subject, disabled, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT DO NOTHING
RETURNING user_id

-- name: get
SELECT * FROM account WHERE user_id = $1

-- name: find
SELECT * FROM account WHERE name = $1

-- name: find_subject
SELECT * FROM account WHERE issuer = $1 AND subject = $2

-- name: list_all
SELECT * FROM account ORDER BY name

-- name: set_grants
UPDATE account SET grants = $2, version = version + 1 WHERE user_id = $1 RETURNING *

-- name: set_password
UPDATE account SET password_hash = $2, version = version + 1
WHERE user_id = $1 RETURNING *

-- name: set_disabled
UPDATE account SET disabled = $2, version = version + 1
WHERE user_id = $1 RETURNING *

-- name: remove
DELETE FROM account WHERE user_id = $1 RETURNING user_id

-- name: add_token
INSERT INTO api_token
  (token_id, user_id, digest, label, scopes, created_at, expires_at, last_used_at)
SELECT $1, user_id, $3, $4, $5, $6, $7, $8 FROM account WHERE user_id = $2
RETURNING token_id

-- name: find_token
SELECT api_token.*, account.*
FROM api_token JOIN account ON account.user_id = api_token.user_id
WHERE digest = $1

-- name: list_tokens
SELECT * FROM api_token WHERE user_id = $1 ORDER BY created_at, token_id

-- name: note_use
UPDATE api_token SET last_used_at = $2
WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2)

-- name: revoke_token
DELETE FROM api_token WHERE token_id = $1 RETURNING token_id

-- name: note
INSERT INTO audit
  (audit_id, at, action, principal, user_id, means, credential, address,
   target, status, problem)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (audit_id) DO UPDATE
SET target = excluded.target, status = excluded.status, problem = excluded.problem

-- name: entries
SELECT * FROM audit
WHERE (CAST($1 AS text) IS NULL OR principal = $1)
  AND (CAST($2 AS text) IS NULL OR action = $2)
  AND (CAST($3 AS double precision) IS NULL OR at >= $3)
  AND (CAST($4 AS text) IS NULL OR audit_id < $4)
ORDER BY audit_id DESC
LIMIT $5

-- name: remove_entries
DELETE FROM audit WHERE audit_id IN (
  SELECT audit_id FROM audit WHERE at < $1 ORDER BY audit_id LIMIT $2)
RETURNING 1

-- name: note_worker
INSERT INTO worker (worker, pool, slots, running, seen_at, address)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (worker) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, running = excluded.running,
  seen_at = excluded.seen_at, address = excluded.address

-- name: workers_seen
SELECT * FROM worker WHERE seen_at >= $1

-- name: forget
DELETE FROM worker WHERE seen_at < $1
