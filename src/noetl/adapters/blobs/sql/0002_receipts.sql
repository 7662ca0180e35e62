-- By which servers know their own receipts for what workers have sent: one row.
CREATE TABLE receipt_secret (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  secret bytea NOT NULL
);
