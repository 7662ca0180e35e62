"""Sessions that another program kept in a PostgreSQL table."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import nats
import pytest
from nats_servers import NatsServer

from noetl.access.credentials import read_credential
from noetl.access.sessions import Lifetime
from noetl.adapters.sessions.importing import import_sessions
from noetl.adapters.sessions.nats import NatsSessions
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.sql_database import SqliteFile
from noetl.engine.times import seconds_of
from noetl.errors import ConfigError, StoreError

NOW = seconds_of("2026-01-31T13:00:00Z")
LIFETIME = Lifetime()
TABLE = """
CREATE SCHEMA auth;
CREATE TABLE auth.sessions (
  session_id integer PRIMARY KEY, session_token text, user_id integer, email text,
  display_name text, roles {roles}, created_at timestamptz, expires_at timestamp,
  last_activity_at timestamptz, client_ip inet, auth0_id text
);
"""
ROW = "INSERT INTO auth.sessions VALUES ($1, $2, $3, 'ann@example.com', 'Ann', $4, $5::text::timestamptz, $6::text::timestamp, NULL, '10.0.0.7', 'auth0|1')"  # noqa: E501


async def fill(address: str, roles: str, *rows: tuple[object, ...]) -> None:
    connection = await asyncpg.connect(address)
    await connection.execute("DROP SCHEMA IF EXISTS auth CASCADE")
    await connection.execute(TABLE.format(roles=roles))
    for row in rows:
        await connection.execute(ROW, *row)
    await connection.close()


def row(
    number: int,
    roles: object,
    token: str | None = None,
    created: str = "2026-01-31T12:00:00Z",
    expires: str = "2026-02-01T12:00:00",
) -> tuple[object, ...]:
    return number, token or f"{number:040}", 456, roles, created, expires


@pytest.mark.spec("SES-12")
async def test_valid_sessions_come_over_and_their_cookies_go_on(
    postgres: str, nats_server: NatsServer
) -> None:
    await fill(
        postgres,
        "text[]",
        row(1, ["admin", "viewer:finance/*"]),
        row(2, ["viewer"], expires="2026-01-31T12:59:00"),
        row(3, ["emperor"]),
        row(4, ["viewer"], token="short"),
        row(5, ["viewer"], created="2026-01-20T12:00:00Z"),
        row(6, None, expires="2036-01-01T00:00:00"),
    )
    client = await nats.connect(nats_server.address)
    sessions = NatsSessions(lambda: client)
    await sessions.invalidate_user("456")

    for _ in range(2):
        done = await import_sessions(
            postgres, "auth.sessions", sessions, now=NOW, lifetime=LIFETIME
        )
        assert done.sessions == 2
        assert done.passed_over == {
            "it has expired": 2,
            "it has a role that is not known here": 1,
            "the token is missing or too short": 1,
        }

    first, last = await sessions.list_by_user("456", now=NOW)
    if first.session.session_id != "1":
        first, last = last, first
    assert first.session.roles == ("admin", "viewer:finance/*")
    assert first.session.client_ip == "10.0.0.7"
    assert first.session.expires_at == seconds_of("2026-02-01T12:00:00Z")
    assert last.session.expires_at == NOW + LIFETIME.ttl, "no longer than one of ours"
    cookie = read_credential([], [f"noetl_session={1:040}"], secure=False)
    assert cookie is not None
    assert await sessions.get(cookie.digest, now=NOW) == first
    await client.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [("jsonb", '["viewer"]'), ("text", "viewer, "), ("text", '["viewer"]')],
)
async def test_roles_are_read_as_arrays_json_or_names(
    postgres: str, tmp_path: Path, column: str, value: str
) -> None:
    await fill(postgres, column, row(1, value))
    file = SqliteFile.open(tmp_path / "access.db")
    sessions = SqliteSessions(file)

    await import_sessions(
        postgres, "auth.sessions", sessions, now=NOW, lifetime=LIFETIME
    )

    (kept,) = await sessions.list_by_user("456", now=NOW)
    assert kept.session.roles == ("viewer",)
    await file.close()


async def test_a_wrong_table_is_explained(postgres: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(postgres)
    await connection.execute(
        "CREATE TABLE other (id int); INSERT INTO other VALUES (1)"
    )
    await connection.close()
    file = SqliteFile.open(tmp_path / "access.db")
    sessions = SqliteSessions(file)
    for table, message in (
        ("nothing", "the database has no table nothing"),
        ("x; DROP TABLE y", "is not a valid table name: write a name such as"),
        ("other", "no column session_token, user_id, created_at, expires_at"),
    ):
        with pytest.raises(ConfigError, match=message):
            await import_sessions(postgres, table, sessions, now=NOW, lifetime=LIFETIME)
    with pytest.raises(StoreError, match="cannot be read") as e:
        await import_sessions(
            "postgresql://a:s3cret@127.0.0.1:1/x",
            "sessions",
            sessions,
            now=NOW,
            lifetime=LIFETIME,
        )
    assert "s3cret" not in str(e.value)
    await file.close()
