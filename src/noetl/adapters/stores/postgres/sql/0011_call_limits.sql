-- When the next call of a key is due, and what its refused calls were told; which
-- commands hold a slot of a key, as long as their leases last.
CREATE TABLE call_line (
  key text NOT NULL PRIMARY KEY,
  due double precision NOT NULL,
  told double precision NOT NULL
);

CREATE INDEX call_line_told ON call_line (told);

CREATE TABLE call_slot (
  key text NOT NULL,
  command_id text NOT NULL,
  epoch integer NOT NULL,
  PRIMARY KEY (key, command_id)
);

CREATE INDEX call_slot_command ON call_slot (command_id);
