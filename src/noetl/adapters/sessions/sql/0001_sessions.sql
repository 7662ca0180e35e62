-- Versions of sessions. The last one of a key is the session; none: it was ended.
CREATE TABLE session (
  revision integer PRIMARY KEY AUTOINCREMENT,
  key text NOT NULL,
  user_id text NOT NULL,
  expires_at double precision NOT NULL,
  value blob
);

CREATE INDEX session_key ON session (key, revision);

CREATE INDEX session_user ON session (user_id);

CREATE INDEX session_end ON session (expires_at);
