-- What listings say of playbooks, by a hash of it: summaries have the key alone.
CREATE TABLE playbook_line (
  key text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
