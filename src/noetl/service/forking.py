"""Executions that go on from an event of another one, on a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from noetl.access.initiators import Initiator
from noetl.adapters.catalogs.registered import RegisteredCatalog
from noetl.engine.callers import Caller
from noetl.errors import BlobGone, ConfigError
from noetl.ports import Summary
from noetl.runtime.fork_plans import (
    Edits,
    Origin,
    Plan,
    Successor,
    find_retry,
    make_plan,
)
from noetl.runtime.forks import begin_fork
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.origins import Log, Start
from noetl.service.outlook import look_ahead
from noetl.service.refusal import Refusal
from noetl.service.starting import Found, Started
from noetl.types import JSON


class Forked(msgspec.Struct, frozen=True):
    """``at`` is the last event that it keeps."""

    started: Started
    at: int


class Forking:
    """Refuses with ``fork.impossible`` where no fork can begin."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        log: Log,
        catalog: RegisteredCatalog,
        new_id: Callable[[], str],
    ) -> None:
        self._orchestrator = orchestrator
        self._log = log
        self._catalog = catalog
        self._new_id = new_id

    async def plan(
        self,
        summary: Summary,
        edits: Edits,
        *,
        newer: Found | None,
        at: int | None = None,
        step: str | None = None,
        run: int | None = None,
    ) -> Plan:
        """With ``at``, up to this event; without it a retry of what failed, or of a
        step."""
        origin = await self._origin(summary)
        try:
            start = Start(at) if at is not None else None
            start = start or await find_retry(origin, step, run)
            successor = _successor(newer)
            return await make_plan(origin, start, edits, self._new_id(), successor)
        except ConfigError as error:
            raise Refusal("fork.impossible", str(error)) from None

    async def begin(self, plan: Plan, caller: Caller, initiator: Initiator) -> Forked:
        """It is in the log when this returns, with its caller, and workers find it."""
        orchestrator, name = self._orchestrator, plan.fork.execution_id
        fork = msgspec.structs.replace(
            plan.fork, caller=caller, initiator=initiator.as_json()
        )
        try:
            error = await begin_fork(
                orchestrator, plan.playbook, fork, plan.point, self._log
            )
        except ConfigError as refused:
            raise Refusal("fork.impossible", str(refused)) from None
        if error is not None:
            message, more = error["message"], {"entries": error.get("entries")}
            raise Refusal(error["kind"], message, execution_id=name, **more)
        await orchestrator.take_up(name)
        summary = await orchestrator.store.summary(name)
        return Forked(Started(name, summary.status), plan.fork.seq)

    async def preview(self, plan: Plan) -> dict[str, JSON]:
        """What it would keep, and what it would do."""
        return await look_ahead(plan, self._log)

    async def _origin(self, summary: Summary) -> Origin:
        name, playbook = summary.execution_id, None
        [first] = await self._log.read(name, limit=1)
        about = first.payload["playbook"]
        with suppress(BlobGone, ConfigError):  # who brings a newer one needs no other
            playbook = await self._catalog.pinned(about)
        blobs = self._orchestrator.blobs
        return Origin(name, self._log, blobs, summary, about, playbook)


def _successor(found: Found | None) -> Successor | None:
    if found is None:
        return None
    if found.entry.playbook is None:
        error = found.entry.error
        diagnostics = error.get("diagnostics", [])
        raise Refusal("playbook.invalid", error["message"], diagnostics=diagnostics)
    return Successor(found.entry.playbook, found.entry.about, "the playbook")
