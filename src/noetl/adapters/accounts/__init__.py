"""Where accounts are kept: SQLite on one machine, PostgreSQL in a cluster."""
