-- Commands that one owner runs together, and who that is, for how long.
ALTER TABLE command ADD COLUMN together text COLLATE "C";

CREATE TABLE keeper (
  name text COLLATE "C" PRIMARY KEY,
  owner text NOT NULL,
  expires_at double precision NOT NULL
);

CREATE INDEX keeper_expired ON keeper (expires_at);
