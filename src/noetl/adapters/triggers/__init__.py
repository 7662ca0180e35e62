"""Adapters of the port ``Triggers``: the same tables in SQLite and PostgreSQL."""
