-- Commands that one owner runs together, and who that is, for how long.
ALTER TABLE command ADD COLUMN together TEXT;

CREATE TABLE keeper (
  name TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  expires_at REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX keeper_expired ON keeper (expires_at);

-- Who looks for work reads the index alone.
DROP INDEX command_open;
CREATE INDEX command_open ON command (state, pool, execution, rank, together)
WHERE state IS NOT NULL;
