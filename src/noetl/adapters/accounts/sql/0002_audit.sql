-- Who changed what; ids are in the order of time.

CREATE TABLE audit (
  audit_id text PRIMARY KEY,
  at double precision NOT NULL,
  action text NOT NULL,
  principal text,
  user_id text,
  means text,
  credential text,
  address text,
  target text NOT NULL,
  status integer,
  problem text
);

CREATE INDEX audit_principal ON audit (principal, audit_id);
