"""Stores of executions: in memory, in an SQLite file, in PostgreSQL."""
