"""The store in PostgreSQL: one for many servers."""

from noetl.adapters.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
