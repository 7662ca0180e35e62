"""Checks of a home after a crash: nothing acknowledged is lost, and work goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from crash.tables import READERS, check_tables, inspect
from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS
from noetl.config import read_settings
from noetl.embedded import Embedded
from noetl.engine.evolve import evolve
from noetl.engine.invariants import Audit
from noetl.engine.state import State, status_of
from noetl.engine.values.references import references_in
from noetl.errors import NoetlError
from noetl.local.home import Home
from noetl.runtime.executions.loaded import freeze
from noetl.runtime.executions.snapshots import body_of


class Acknowledged:
    """The positions that the process was told of, by log and execution.

    That of an execution being removed is 0, and None after its removal.
    """

    def __init__(self) -> None:
        self.ends: dict[str, dict[str, int | None]] = {}

    def take(self, mark: str) -> None:
        if mark.startswith("["):
            log, ends = json.loads(mark)
            self.ends.setdefault(log, {}).update(ends)

    def of(self, log: str) -> Mapping[str, int | None]:
        return self.ends.get(log, {})


class Replayed(msgspec.Struct, frozen=True):
    """What the log of an execution says, up to one position: its status, the keys of
    its values, and what is wrong with it."""

    status: str
    blobs: frozenset[str]
    wrong: tuple[str, ...]


class Judge:
    """Judges homes that are images of one recording.

    Logs are chained by hashes: a log that ends with a hash that was seen before is the
    same log, and is not replayed again.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._replayed: dict[tuple[str, bytes], Replayed] = {}
        self._hashes: dict[tuple[str, int], bytes] = {}
        self._removed: set[str] = set()
        self.continued = 0

    def close(self) -> None:
        self._runner.close()

    def judge(
        self, home: Path, told: Acknowledged, *, go_on: bool = False
    ) -> list[str]:
        """Return what is wrong with a home; with ``go_on`` also after its open
        executions have run to their ends."""
        wrong: list[str] = []
        found = {path.name for path in home.glob("*.db")}
        stored = {n for n in found if n in READERS or n.startswith("log")}
        for name in sorted(stored | {*told.ends}):
            if name in stored:
                wrong += self._runner.run(self._look(home, name, told.of(name)))
            elif any(told.of(name).values()):
                wrong.append(f"{name} is lost")
        if go_on and not wrong:
            wrong += self._runner.run(self._go_on(Home(home), told))
        return wrong

    async def _look(
        self, home: Path, name: str, told: Mapping[str, int | None]
    ) -> list[str]:
        try:
            if name in READERS:
                wrong = await check_tables(home / name, told)
                return [f"{name}: {each}" for each in wrong]
            store = SqliteStore.open(home / name)
        except NoetlError as error:
            return [f"{name} cannot be opened: {error}"]
        try:
            return [f"{name}: {each}" async for each in self._check(store, home, told)]
        except (NoetlError, KeyError) as error:
            return [f"{name} cannot be read: {error!r}"]
        finally:
            await store.close()

    async def _check(
        self, store: SqliteStore, home: Path, told: Mapping[str, int | None]
    ) -> Any:
        for wrong in await store._read(lambda db: list(inspect(db))):
            yield wrong
        found = {each.execution_id: each for each in await store.find(limit=10_000)}
        for execution_id, seq in told.items():
            if seq is None:
                if execution_id in found:
                    yield f"{execution_id} was removed, and is there again"
            elif (length := await store.length(execution_id)) < seq:
                yield f"{execution_id} has {length} events, of {seq} acknowledged"
        for execution_id, summary in found.items():
            damage = await store.verify(execution_id)
            if damage is not None:
                yield f"{execution_id}: {damage.message}"
                continue
            replayed = await self._replay(store, execution_id)
            for wrong in replayed.wrong:
                yield f"{execution_id}: {wrong}"
            if summary.status != replayed.status:
                both = f"{summary.status} and by its log {replayed.status}"
                yield f"{execution_id} is {both}"
            async for wrong in _missing(home, replayed.blobs):
                yield f"{execution_id}: {wrong}"

    async def _replay(self, store: SqliteStore, execution_id: str) -> Replayed:
        rows = await store._read(lambda db: _hashes(db, execution_id))
        wrong = [
            f"event {seq} is another one than before"
            for seq, value in rows
            if self._hashes.setdefault((execution_id, seq), value) != value
        ]
        key = (execution_id, rows[-1][1])
        known = self._replayed.get(key)
        if known is not None and not wrong:
            return known
        state, watch, blobs = State(), Audit(), set()
        snapshot = await store.snapshot(execution_id)
        async for page in store.pages(execution_id):
            for event in page:
                wrong += [breach.message for breach in watch.take(event)]
                evolve(state, event)
                blobs |= {each["key"] for each in references_in(event.payload)}
                if snapshot and event.seq == snapshot.seq:
                    body = body_of(snapshot.body)
                    wrong += ["a false snapshot"] * (freeze(state) != body)
        wrong += [breach.message for breach in watch.end()]
        found = Replayed(status_of(state), frozenset(blobs), tuple(wrong))
        return self._replayed.setdefault(key, found)

    async def _go_on(self, home: Home, told: Acknowledged) -> list[str]:
        """Run open executions to their ends, the callers of others first."""
        wrong = []
        for name in told.ends:
            path = home.folder / name
            if name in READERS or not path.exists():
                continue
            for execution_id, folder in await _open_roots(path):
                self.continued += 1
                try:
                    document = await _finish(home, path, folder, execution_id)
                except NoetlError as error:
                    wrong.append(f"{name}: {execution_id} cannot go on: {error}")
                    continue
                if document["status"] not in ("completed", "cancelled"):
                    error = document["error"]
                    wrong.append(f"{name}: {execution_id} goes on, and fails: {error}")
            # These executions have gone their own way: their events are others.
            self._hashes.clear()
            wrong += await self._look(home.folder, name, told.of(name))
        self._hashes.clear()
        self._replayed.clear()
        return wrong


def _hashes(db: Any, execution_id: str) -> list[tuple[int, bytes]]:
    sql = "SELECT number FROM execution WHERE execution_id = ?"
    (number,) = db.execute(sql, (execution_id,)).fetchone()
    first = number << SEQ_BITS
    sql = "SELECT key - ?1, hash FROM batch WHERE key BETWEEN ?1 AND ?2 ORDER BY key"
    return list(db.execute(sql, (first, first + (1 << SEQ_BITS) - 1)))


async def _missing(home: Path, keys: frozenset[str]) -> Any:
    """Yield the values that the log refers to and that are not there (I-35)."""
    blobs = FileBlobs(home / "results")
    for key in keys:
        try:
            await blobs.get(key)
        except NoetlError as error:
            yield f"refers to a value that is not there: {error}"


async def _finish(
    home: Home, path: Path, folder: str | None, execution_id: str
) -> dict[str, Any]:
    store = SqliteStore.open(path)
    settings = read_settings()
    runtime = await Embedded.reopen(home, store, folder, settings, execution_id)
    try:
        await runtime.resume_from_log()
        async with asyncio.timeout(60):
            await runtime.finish()
        return runtime.document()
    finally:
        await runtime.close()


async def _open_roots(path: Path) -> list[tuple[str, str | None]]:
    """Return the open executions of a log that no other one has called, each with the
    folder of its playbook."""
    store = SqliteStore.open(path)
    try:
        found = await store.find(limit=10_000)
    finally:
        await store.close()
    return [
        (each.execution_id, each.playbook.get("folder"))
        for each in found
        if each.finished_at is None and each.parent_id is None
    ]


def write_image(root: Path, files: Iterator[tuple[str, bytes | None]]) -> None:
    """Replace the folder by the files of an image."""
    shutil.rmtree(root, ignore_errors=True)
    for path, content in files:
        if content is None:
            Path(path).mkdir(mode=0o700)
        else:
            Path(path).write_bytes(content)
