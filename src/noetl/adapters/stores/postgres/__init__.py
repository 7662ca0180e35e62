"""The log in PostgreSQL: one for many servers, and the database decides."""

from noetl.adapters.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
