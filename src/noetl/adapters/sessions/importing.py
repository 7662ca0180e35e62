"""Import of another program's sessions from its PostgreSQL table (SES-12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec

from noetl.access.credentials import digest_session
from noetl.access.permissions import read_grants
from noetl.access.sessions import Lifetime, Session
from noetl.errors import AccessError, ConfigError, StoreError
from noetl.ports.access import Sessions
from noetl.types import JSON

TOKEN = "session_token"
_NEEDED = (TOKEN, "user_id", "created_at", "expires_at")
_TABLE = re.compile(r"[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62})?\Z", re.ASCII)


class Imported(msgspec.Struct):
    """Number of imported sessions, and of others by the reason."""

    sessions: int = 0
    passed_over: Counter[str] = msgspec.field(default_factory=Counter)


async def import_sessions(
    dsn: str, table: str, sessions: Sessions, *, now: float, lifetime: Lifetime
) -> Imported:
    """Import the valid sessions; the table is not changed, and may be imported twice.

    Its columns are those of SES-03 and ``session_token``. A time without a zone is in
    UTC. No session lasts longer than a new one would.
    """
    if _TABLE.match(table) is None:
        hint = "write a name such as sessions or auth.sessions"
        raise ConfigError(f"'{table:.64}' is not a valid table name: {hint}")
    name = ".".join(f'"{part}"' for part in table.split("."))
    found = Imported()
    try:
        connection = await asyncpg.connect(dsn, timeout=10.0)
        try:
            async with connection.transaction(readonly=True):
                async for row in connection.cursor(f"SELECT * FROM {name}"):
                    await _take(dict(row), sessions, found, now, lifetime)
        finally:
            await connection.close()
    except asyncpg.UndefinedTableError:
        raise ConfigError(f"the database has no table {table}") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        message = f"{table} cannot be read ({type(error).__name__})"
        raise StoreError(message, "store.unreachable") from error
    return found


async def _take(
    row: Mapping[str, Any],
    sessions: Sessions,
    found: Imported,
    now: float,
    lifetime: Lifetime,
) -> None:
    missing = [name for name in _NEEDED if name not in row]
    if missing:
        raise ConfigError(f"the table has no column {', '.join(missing)}")
    try:
        key, session = _read(row, lifetime, now)
    except ValueError as error:
        found.passed_over[str(error)] += 1
        return
    await sessions.create(key, session, now=now)
    found.sessions += 1


def _read(
    row: Mapping[str, Any], lifetime: Lifetime, now: float
) -> tuple[str, Session]:
    """Read a row. Raises ``ValueError`` with a reason that does not quote it."""
    key = digest_session(str(row[TOKEN] or ""))
    if key is None:
        raise ValueError("the token is missing or too short")
    if row["user_id"] is None:
        raise ValueError("it has no user")
    created = _seconds(row["created_at"])
    end = min(_seconds(row["expires_at"]), lifetime.end(created, now))
    if end <= now:
        raise ValueError("it has expired")
    active = row.get("last_activity_at")
    return key, Session(
        session_id=str(row.get("session_id") or key[:32]),
        user_id=str(row["user_id"]),
        email=_text(row.get("email")),
        display_name=_text(row.get("display_name")),
        roles=_roles(row.get("roles")),
        created_at=created,
        expires_at=end,
        last_activity_at=created if active is None else _seconds(active),
        client_ip=_text(row.get("client_ip")),
        auth0_id=_text(row.get("auth0_id")),
    )


def _roles(value: JSON) -> tuple[str, ...]:
    """Read roles from an array, JSON, or names separated by commas."""
    names = value or []
    if isinstance(names, str):
        try:
            names = msgspec.json.decode(names)
        except msgspec.DecodeError:
            names = [name.strip() for name in names.split(",")]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("its roles cannot be read")
    try:
        return tuple(str(grant) for grant in read_grants(filter(None, names)))
    except AccessError:
        raise ValueError("it has a role that is not known here") from None


def _seconds(value: Any) -> float:
    if not isinstance(value, datetime):
        raise ValueError("a time in it is not a timestamp")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
