"""The store in one SQLite file: durable without a database server."""

from noetl.adapters.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
