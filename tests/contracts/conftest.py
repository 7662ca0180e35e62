"""Every adapter of a port as a parameter, and the facts that the tests store."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from databases import DROP, PUBLIC, LogDatabase, execute
from memory_blobs import MemoryBlobs
from open_execution import NAME, advance, start
from stored_log import PostgresLog, SqliteLog

from noetl.adapters.catalogs.postgres import PostgresCatalogRows
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.adapters.stores.postgres import PostgresStore, group_commit
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.ports import (
    Append,
    CatalogRows,
    Command,
    CommandChanges,
    ConcurrencySlot,
    Grant,
    Lease,
    Reports,
    Summary,
    Timer,
    TimerChanges,
    Transition,
)
from noetl.runtime.executions import transition
from noetl.service.executions.verification import StoreCheck
from noetl.types import JSON

RUNNER = asyncio.Runner()
START = "2026-11-15T08:00:00.000000Z"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests run on the loop of their fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    RUNNER.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Facts:
    """Makes what is stored; ids are short, because people read them."""

    def event(self, execution_id: str, seq: int, **payload: JSON) -> Event:
        return Event(
            event_id=f"{execution_id}.{seq}",
            execution_id=execution_id,
            seq=seq,
            timestamp=START,
            source="server",
            name="step.scheduled",
            entity_type="step",
            parent_id=None,
            entity_id=f"{execution_id}-1",
            status="in_progress",
            payload=payload,
        )

    def summary(
        self,
        execution_id: str,
        status: ExecutionStatus = "running",
        labels: Mapping[str, str] | None = None,
    ) -> Summary:
        about, given = {"name": "orders"}, dict(labels or {})
        return Summary(execution_id, status, about, START, labels=given)

    def transition(
        self,
        execution_id: str,
        after: int = 0,
        *,
        count: int = 1,
        status: ExecutionStatus = "running",
        commands: list[str | Command] | None = None,
        grant: Grant | None = None,
        done: Sequence[str] = (),
        release: Sequence[str] = (),
        leases: Sequence[Lease] = (),
        reported: Mapping[str, int] | None = None,
        timers: Mapping[str, float] | Sequence[Timer] = (),
        disarm: Sequence[str] = (),
        notify: Sequence[Timer] = (),
        history: Sequence[bytes] = (),
        snapshot: bytes | None = None,
        slot: ConcurrencySlot | None = None,
        request_key: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Transition:
        events = [self.event(execution_id, after + n + 1, n=n) for n in range(count)]
        planned = [
            name if isinstance(name, Command) else Command(name, execution_id)
            for name in commands or []
        ]
        if isinstance(timers, Mapping):
            timers = [Timer(execution_id, *each, "delay") for each in timers.items()]
        return Transition(
            execution_id=execution_id,
            log=Append(after, events, history=history, snapshot=snapshot),
            summary=self.summary(execution_id, status, labels),
            reports=Reports(leases, reported or {}),
            commands=CommandChanges(planned, grant, done, release),
            timers=TimerChanges(timers, disarm, notify),
            slot=slot,
            request_key=request_key,
        )


@pytest.fixture
def facts() -> Facts:
    return Facts()


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs what a fixture needs on the loop of the tests."""
    return RUNNER.run


@pytest.fixture
def postgres(request: pytest.FixtureRequest, log_server: LogDatabase) -> str:
    """The address of a database: empty, or for a store with the tables of the log."""
    if "store" in request.fixturenames:
        RUNNER.run(log_server.clear())
    else:
        RUNNER.run(execute(log_server.address, DROP + PUBLIC))
    return log_server.address


AnyStore = MemoryStore | SqliteStore | PostgresStore


@pytest.fixture(
    params=["memory", "sqlite", "sqlite-threaded", "postgres", "postgres-grouped"]
)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AnyStore]:
    """Open a store. ``-grouped`` commits plain transitions, too, by the statement of
    groups."""
    opened: AnyStore
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param.startswith("postgres"):
        if request.param == "postgres-grouped":
            monkeypatch.setattr(group_commit, "plain", lambda *_: None)
        database = Postgres(request.getfixturevalue("postgres"))
        opened = RUNNER.run(PostgresStore.open(database))
    else:
        threaded = request.param == "sqlite-threaded"
        opened = SqliteStore.open(tmp_path / "log.db", threaded=threaded)
    yield opened
    if isinstance(opened, PostgresStore):
        RUNNER.run(database.close())
    else:
        RUNNER.run(opened.close())


Writer = Callable[..., Awaitable[None]]


async def in_postgres(address: str, *statements: tuple[Any, ...]) -> list[Any]:
    """Run statements; return the rows of the last one."""
    settings = {"search_path": "noetl"}
    connection = await asyncpg.connect(address, server_settings=settings)
    try:
        for statement in statements:
            rows = await connection.fetch(*statement)
        return rows
    finally:
        await connection.close()


@pytest.fixture
def write(store: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Writer:
    """Changes the tables of the store by hand: ``?`` stands for a value."""

    async def change(sql: str, rows: Sequence[tuple[Any, ...]] = ((),)) -> None:
        if isinstance(store, SqliteStore):
            with sqlite3.connect(tmp_path / "log.db", timeout=30) as db:
                db.executemany(sql, rows)
            db.close()
        elif isinstance(store, PostgresStore):
            parts = sql.split("?")
            numbered = [f"{part}${n}" for n, part in enumerate(parts[:-1], 1)]
            text = "".join(numbered) + parts[-1]
            address = request.getfixturevalue("postgres")
            await in_postgres(address, *[(text, *row) for row in rows])
        else:
            pytest.skip("the store in memory has no tables")

    return change


@pytest.fixture(params=["sqlite", "postgres"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CatalogRows]:
    opened: CatalogRows
    database: Postgres | None = None
    if request.param == "postgres":
        database = Postgres(request.getfixturevalue("postgres"))
        opened = RUNNER.run(PostgresCatalogRows.open(database))
    else:
        opened = SqliteCatalogRows(tmp_path / "catalog.db")
    yield opened
    RUNNER.run((database or opened).close())


@pytest.fixture
def world(store: Any, run: Any, request: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    """An open execution with all kinds of rows, and the check of its store."""
    monkeypatch.setattr(transition, "SNAPSHOT_EVERY", 1)
    blobs = MemoryBlobs()
    orchestrator = run(start(store, blobs, NAME))
    run(advance(orchestrator))
    database = None
    if isinstance(store, SqliteStore):
        log: Any = SqliteLog(tmp_path / "log.db", NAME)
    elif request.node.callspec.params["store"].startswith("postgres"):
        database = Postgres(request.getfixturevalue("postgres"))
        log = PostgresLog(database, NAME)
    else:
        log = None
    check = StoreCheck(store, blobs, lambda about, body: load(body, BUILTIN).playbook)
    yield SimpleNamespace(
        orchestrator=orchestrator,
        check=check,
        log=log,
        blobs=blobs,
        store=store,
        findings=partial(_findings, check),
    )
    run(orchestrator.close())
    if database is not None:
        run(database.close())


async def _findings(check: StoreCheck) -> list[tuple[str, int, str]]:
    found = await check.verify(NAME)
    return [(each.invariant, each.seq, each.message) for each in found.breaches]
