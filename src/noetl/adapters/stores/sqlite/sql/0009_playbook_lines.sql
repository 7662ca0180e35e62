-- What listings say of playbooks, by a hash of it: summaries have the key alone.
CREATE TABLE playbook_line (
  key TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) WITHOUT ROWID;
