"""Requests of child executions: built after the checks of rights, within the limits of
their family."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from noetl.access.initiator import Initiator
from noetl.dsl.diagnostics import nearest
from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import merge_inputs
from noetl.engine.decide import Request
from noetl.engine.ids import span_id_of
from noetl.engine.waits.suspend import MAX_DEPTH
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Catalog, ExecutionIndex, Store
from noetl.runtime.executions.initiator_rights import RUN, Rights, find_initiator
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.values.ownership import Owners
from noetl.types import JSON


class ChildRefused(Exception):
    """A child that must not be started; ``kind`` and the message go to its caller."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ChildRequest(msgspec.Struct, frozen=True):
    """A request with its playbook; None if the playbook is not valid: see ``error``."""

    request: Request
    playbook: Playbook | None
    error: dict[str, JSON]


class ChildRequests:
    """``bound`` limits the unfinished executions of one family."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        owners: Owners,
        rights: Rights,
        bound: FamilyBound,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._owners = owners
        self._rights = rights
        self._bound = bound

    async def make(
        self, loaded: LoadedExecution, command_id: str, child: dict[str, JSON]
    ) -> ChildRequest:
        """Build the request of a child. Raises ``ChildRefused``."""
        parent_id, path = loaded.state.execution_id, child["path"]
        if loaded.state.depth >= MAX_DEPTH:
            message = f"playbooks call each other more than {MAX_DEPTH} deep"
            raise ChildRefused("playbook.depth", message)
        if not await self._bound.admits(loaded.state.family, parent_id):
            raise ChildRefused(
                "playbook.family",
                f"{self._bound.limit:,} executions that descend from one root have "
                "not finished, the limit of this server (setting 'family_limit'): the "
                "child was not started; let some finish first, or call fewer at a time",
            )
        initiator = await find_initiator(self._store, parent_id)
        if not await self._rights.allow(initiator, RUN, path):
            # Checked before the catalog is read: the error does not say what it holds.
            who = initiator.principal if initiator else "the caller"
            message = f"{who}, who began this execution, may not run '{path}'"
            raise ChildRefused("playbook.forbidden", message)
        found = await self._catalog.find(path, child["version"])
        if found is None:
            version = f" in version {child['version']}" if child["version"] else ""
            message = f"there is no playbook '{path}'{version}; looked in "
            message += self._catalog.place + await self._similar(initiator, path)
            raise ChildRefused("playbook.not_found", message)
        try:
            args = await self._owners.whole(parent_id, child["args"])
        except (BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned) as error:
            raise ChildRefused(error.kind, str(error)) from None
        caller: dict[str, JSON] = {
            "execution_id": parent_id,
            "command_id": command_id,
            "depth": loaded.state.depth,
            "iter": child["iter"],
        }
        above = loaded.state.parent
        root = parent_id if above is None else above.get("root")
        if root is not None:
            caller["root"] = root
        request = Request(
            child["execution_id"],
            _marked(found.about, loaded.about),
            merge_inputs(found.playbook, args) if found.playbook else args,
            parent=caller,
            trace_id=loaded.state.trace_id,
            trace_parent=span_id_of(command_id),
            initiator=initiator.as_json() if initiator else None,
            labels=child.get("labels", {}),
        )
        return ChildRequest(request, found.playbook, found.error)

    async def _similar(self, initiator: Initiator | None, path: str) -> str:
        """Return a hint with the most similar path, if the initiator may run it."""
        match = nearest(path, await self._catalog.paths())
        if match in (None, path) or not await self._rights.allow(initiator, RUN, match):
            return ""
        return f"; did you mean '{match}'?"


def _marked(about: dict[str, JSON], caller: dict[str, JSON]) -> dict[str, JSON]:
    """Mark the child of a sensitive caller as sensitive: it gets the caller's data."""
    return {**about, "sensitive": True} if caller.get("sensitive") else about


FAMILY_LIMIT = 10_000
"""Default limit of unfinished executions that descend from one root."""
COUNT_LIFE_S = 1.0
"""Seconds for which the count of a family is used."""
FULL_COUNT_LIFE_S = 0.1
"""Seconds for which a count at the limit is used: executions may have ended."""
MAX_CACHED = 1_000


class _Count(msgspec.Struct):
    """The stored count, and how many children this server had ``begun`` before it was
    read. Two reads may overlap, so ``begun`` only grows."""

    read_at: float
    found: int = 0
    begun_before: int = 0
    begun: int = 0

    @property
    def unfinished(self) -> int:
        return self.found + self.begun - self.begun_before


class FamilyBound:
    """Decides whether one more child may start.

    A family is counted in the store at most once a second, or ten times a second at the
    limit; in between, this server adds the children that it admits. The limit is soft:
    a family may exceed it by the children that other servers admit within that second.
    """

    def __init__(
        self, store: ExecutionIndex, now: Callable[[], float], limit: int | None
    ):
        self._store = store
        self._now = now
        self._counts: dict[str, _Count] = {}
        self.limit = limit

    async def admits(self, family: str, caller_id: str) -> bool:
        """Count one more child of the family; return False at the limit.

        ``caller_id`` is the execution that calls the child.
        """
        if self.limit is None:
            return True
        count = self._counts.get(family)
        if count is None or self._is_old(count, self.limit):
            count = await self._read(family, caller_id, self.limit)
        if count.unfinished >= self.limit:
            return False
        count.begun += 1
        return True

    def _is_old(self, count: _Count, limit: int) -> bool:
        is_full = count.unfinished >= limit
        age = self._now() - count.read_at
        return not 0 <= age < (FULL_COUNT_LIFE_S if is_full else COUNT_LIFE_S)

    async def _read(self, family: str, caller_id: str, limit: int) -> _Count:
        """Read the count; children admitted during the query are added to the old
        count.
        """
        earlier = self._counts.pop(family, None)
        count = self._counts[family] = earlier or _Count(0.0)
        count.read_at, before = self._now(), count.begun
        if len(self._counts) > MAX_CACHED:
            del self._counts[next(iter(self._counts))]
        found = await self._store.count_family(caller_id, limit=limit)
        count.found, count.begun_before = found, before
        return count


class Lane:
    """Runs up to ``width`` pieces of work of each family at once.

    No family waits for another one: work may take long, because it calls a slow store
    of secrets.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, family: str) -> AsyncIterator[None]:
        """Wait for a turn of this family, and hold it."""
        running = self._running.get(family, 0)
        if running < self._width:
            self._running[family] = running + 1
        else:
            await self._wait(family)
        try:
            yield
        finally:
            self._pass_on(family)

    async def _wait(self, family: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(family, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn was granted just before
                self._pass_on(family)
            raise

    def _pass_on(self, family: str) -> None:
        """Give the turn to the work of the family that has waited longest."""
        line = self._waiting.get(family, deque())
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(family, None)
        self._running[family] -= 1
        if not self._running[family]:
            del self._running[family]
