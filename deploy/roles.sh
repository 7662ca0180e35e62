#!/bin/sh
# Makes the two roles of docs/how-to/deploy.md, once, when the database is made: one owns
# the tables, the other one is what servers use.
set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
  -v owner="$OWNER_PASSWORD" -v server="$SERVER_PASSWORD" <<'SQL'
CREATE ROLE noetl_owner LOGIN PASSWORD :'owner';
CREATE ROLE noetl LOGIN PASSWORD :'server';
REVOKE ALL ON DATABASE noetl FROM PUBLIC;
GRANT CONNECT, CREATE ON DATABASE noetl TO noetl_owner;
GRANT CONNECT ON DATABASE noetl TO noetl;
SQL
