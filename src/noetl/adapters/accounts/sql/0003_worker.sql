-- Workers that were heard of; each server notes those that ask it.

CREATE TABLE worker (
  worker text PRIMARY KEY,
  pool text NOT NULL,
  slots integer NOT NULL,
  running integer NOT NULL,
  seen_at double precision NOT NULL,
  address text
);
