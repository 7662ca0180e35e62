-- When the next call of a key is due, and what its refused calls were told; which
-- commands hold a slot of a key, as long as their leases last.
CREATE TABLE call_line (
  key TEXT NOT NULL PRIMARY KEY,
  due REAL NOT NULL,
  told REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX call_line_told ON call_line (told);

CREATE TABLE call_slot (
  key TEXT NOT NULL,
  command_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (key, command_id)
) WITHOUT ROWID;

CREATE INDEX call_slot_command ON call_slot (command_id);
