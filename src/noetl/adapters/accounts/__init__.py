"""Storage of accounts: SQLite on one machine, PostgreSQL in a cluster."""
