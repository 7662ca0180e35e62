"""Accounts and API tokens in tables: the same statements for every database."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from noetl.access.accounts import Account
from noetl.access.audit import Entry
from noetl.access.credentials import ApiToken
from noetl.access.permissions import Grant, read_grants
from noetl.adapters.sql_database import Database
from noetl.adapters.sql_files import read_queries
from noetl.errors import AccessError
from noetl.ports.access import WorkerRecord

_MAX_CACHED = 1_000
_SQL = read_queries(__package__)
_TOKEN = 8
"""Number of columns of a token in ``find_token``; those of its account follow."""


class SqlAccounts:
    """Caches each token for ``fresh`` seconds, since another server may revoke it.

    A change made through this object takes effect at once.
    """

    def __init__(self, database: Database, *, fresh: float = 0.0) -> None:
        self._database = database
        self._fresh = fresh
        self._found: dict[str, tuple[float, tuple[ApiToken, Account]]] = {}
        self._changes = 0
        self._on_change: list[Callable[[], Awaitable[None]]] = []

    def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self._on_change.append(on_change)

    async def add(self, account: Account) -> None:
        values = (
            *(account.user_id, account.name, _write(account.grants)),
            *(account.created_at, account.email, account.display_name),
            *(account.password_hash, account.issuer, account.subject),
            *(account.disabled, account.version),
        )
        if not await self._fetch("add", *values):
            message = f"there is an account '{account.name}' already"
            raise AccessError("account.exists", message, 409)
        await self._tell()

    async def get(self, user_id: str) -> Account | None:
        return await self._one("get", user_id)

    async def find(self, name: str) -> Account | None:
        return await self._one("find", name)

    async def find_subject(self, issuer: str, subject: str) -> Account | None:
        return await self._one("find_subject", issuer, subject)

    async def list_all(self) -> Sequence[Account]:
        return [_account(row) for row in await self._fetch("list_all")]

    async def set_grants(self, user_id: str, grants: Sequence[Grant]) -> Account:
        return await self._changed("set_grants", user_id, _write(grants))

    async def set_password(self, user_id: str, password_hash: str | None) -> Account:
        return await self._changed("set_password", user_id, password_hash)

    async def set_disabled(self, user_id: str, disabled: bool) -> Account:
        return await self._changed("set_disabled", user_id, disabled)

    async def remove(self, user_id: str) -> None:
        try:
            if not await self._fetch("remove", user_id):
                raise _unknown("account", user_id)
        finally:
            self._forget()
        await self._tell()

    async def add_token(self, token: ApiToken) -> None:
        scopes = None if token.scopes is None else _write(token.scopes)
        values = (
            *(token.token_id, token.user_id, token.digest, token.label, scopes),
            *(token.created_at, token.expires_at, token.last_used_at),
        )
        if not await self._fetch("add_token", *values):
            raise _unknown("account", token.user_id)

    async def find_token(self, digest: str) -> tuple[ApiToken, Account] | None:
        until, known = self._found.get(digest, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        changes = self._changes
        for row in await self._fetch("find_token", digest):
            found = _token(row[:_TOKEN]), _account(row[_TOKEN:])
            if self._fresh and changes == self._changes:
                if len(self._found) >= _MAX_CACHED:
                    self._found.clear()
                self._found[digest] = time.monotonic() + self._fresh, found
            return found
        return None

    async def list_tokens(self, user_id: str) -> Sequence[ApiToken]:
        return [_token(row) for row in await self._fetch("list_tokens", user_id)]

    async def note_use(self, token_id: str, now: float) -> None:
        self._forget()
        await self._fetch("note_use", token_id, now)

    async def revoke_token(self, token_id: str) -> None:
        try:
            if not await self._fetch("revoke_token", token_id):
                raise _unknown("token", token_id)
        finally:
            self._forget()

    def _forget(self) -> None:
        """Empty the cache and keep lookups that are running from filling it."""
        self._changes += 1
        self._found.clear()

    async def _one(self, query: str, *values: str) -> Account | None:
        for row in await self._fetch(query, *values):
            return _account(row)
        return None

    async def _changed(self, query: str, user_id: str, value: Any) -> Account:
        try:
            rows = await self._fetch(query, user_id, value)
        finally:
            self._forget()
        if not rows:
            raise _unknown("account", user_id)
        await self._tell()
        return _account(rows[0])

    async def _tell(self) -> None:
        for on_change in self._on_change:
            await on_change()

    async def _fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._database.fetch(_SQL[query], *values)


def _unknown(what: str, id_: str) -> AccessError:
    return AccessError("account.unknown", f"there is no {what} {id_:.64}", 404)


def _write(grants: Sequence[Grant]) -> str:
    return msgspec.json.encode([str(grant) for grant in grants]).decode()


def _read(text: str) -> tuple[Grant, ...]:
    return read_grants(msgspec.json.decode(text, type=list[str]))


def _account(row: tuple[Any, ...]) -> Account:
    fields = dict(zip(Account.__struct_fields__, row, strict=True))
    fields |= {"grants": _read(fields["grants"]), "disabled": bool(fields["disabled"])}
    return Account(**fields)


def _token(row: tuple[Any, ...]) -> ApiToken:
    fields = dict(zip(ApiToken.__struct_fields__, row, strict=True))
    scopes = fields["scopes"]
    return ApiToken(**{**fields, "scopes": None if scopes is None else _read(scopes)})


_AUDIT_SQL = read_queries(__package__)


class SqlAudit:
    """``removing`` is the query that removes entries, if the role of a server may not
    delete them."""

    def __init__(
        self, database: Database, removing: str = _AUDIT_SQL["remove_entries"]
    ) -> None:
        self._database = database
        self._removing = removing

    async def note(self, entry: Entry) -> None:
        values = msgspec.structs.asdict(entry)
        values["target"] = msgspec.json.encode(dict(entry.target)).decode()
        await self._database.fetch(_AUDIT_SQL["note"], *values.values())

    async def entries(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        since: float | None = None,
        before: str | None = None,
        limit: int,
    ) -> Sequence[Entry]:
        wanted = (user, action, since, before, limit)
        rows = await self._database.fetch(_AUDIT_SQL["entries"], *wanted)
        return [_entry(row) for row in rows]

    async def remove(self, before: float, limit: int) -> int:
        rows = await self._database.fetch(self._removing, before, limit)
        return sum(row[0] for row in rows)


REMOVING = "SELECT remove_audit($1, $2)"
"""The query for PostgreSQL, where a function of the owner removes entries."""


def _entry(row: tuple[Any, ...]) -> Entry:
    fields = dict(zip(Entry.__struct_fields__, row, strict=True))
    return Entry(**{**fields, "target": msgspec.json.decode(fields["target"])})


_WORKER_SQL = read_queries(__package__)


class SqlWorkerRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, worker: WorkerRecord) -> None:
        await self._database.fetch(
            _WORKER_SQL["note_worker"], *msgspec.structs.astuple(worker)
        )

    async def seen(self, *, since: float) -> Sequence[WorkerRecord]:
        rows = await self._database.fetch(_WORKER_SQL["workers_seen"], since)
        names = WorkerRecord.__struct_fields__
        return [WorkerRecord(**dict(zip(names, row, strict=True))) for row in rows]

    async def forget(self, *, before: float) -> None:
        await self._database.fetch(_WORKER_SQL["forget"], before)
