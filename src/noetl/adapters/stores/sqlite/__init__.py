"""The log in one SQLite file: durable without a server."""

from noetl.adapters.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
