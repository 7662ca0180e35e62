"""Forks: executions that continue from an event of another execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from noetl.access.initiator import Initiator
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.engine.events import Caller, Event
from noetl.engine.execution_document import Document
from noetl.engine.forks import Fork
from noetl.engine.runs import LoopState, Run, pipelines
from noetl.engine.state import State, Token
from noetl.engine.tasks.scope import is_equal
from noetl.errors import BlobGone, ConfigError
from noetl.ports import Blobs, Summary
from noetl.runtime.executions.loaded import EVENTS_PER_READ
from noetl.runtime.forks.create import begin_fork, find_changed_loops
from noetl.runtime.forks.plan import (
    Edits,
    Origin,
    Plan,
    Successor,
    find_retry,
    make_plan,
)
from noetl.runtime.forks.points import Log, Start
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.values.ownership import Owners
from noetl.service.errors import RequestRefused
from noetl.service.executions.path_limits import PathLimits
from noetl.service.executions.start import ResolvedPlaybook, Started
from noetl.types import JSON


class ForkPreview:
    """Collects the origin's events up to the fork point."""

    def __init__(self, fork: Fork, state: State, changed: Collection[str]) -> None:
        self._fork = fork
        self._state = state
        self._changed = changed
        self._document = Document()

    def recall(self, events: Sequence[Event]) -> None:
        undone = self._fork.undone
        self._document.note(
            [
                event
                for event in events
                if event.seq <= self._fork.seq
                and (undone is None or not undone.covers(event))
            ]
        )

    def as_json(self) -> dict[str, JSON]:
        fork, state = self._fork, self._state
        kept = Counter(
            (each.step, each.status)
            for each in self._document.steps
            if each.status in ("done", "failed", "skipped")
        )
        return {
            "forked_from": {"execution_id": fork.origin, "seq": fork.seq},
            "kept": [
                {"step": step, "status": status, "runs": count}
                for (step, status), count in kept.items()
            ],
            "again": [_under_way(run) for run in state.runs.values()],
            "next": [
                {"step": token.step, "args": token.args, **self._kept(token.id)}
                for token in state.tokens.values()
            ]
            + [
                {"step": step, "args": {}, **self._kept(*_waiting(queues))}
                for step, queues in state.joining.items()
            ],
            "workload": self._changes(),
            "set_ctx": fork.set_ctx,
            "playbook": fork.playbook if fork.newer else None,
        }

    def _kept(self, *tokens: str) -> dict[str, JSON]:
        """Return the iterations that the next run of a loop keeps, if it has one."""
        for token in tokens:
            kept = self._state.kept.get(token)
            if kept is not None and kept.root is not None:
                done = len(kept.root.done)
                total, changed = kept.root.total, kept.step in self._changed
                counts = {"total": total, "kept": 0 if changed else done}
                counts["again"] = total - counts["kept"]
                return {"iterations": counts, "changed": changed}
        return {}

    def _changes(self) -> dict[str, JSON]:
        """Return the workload inputs that differ from those of the origin."""
        before, after = self._state.workload, self._fork.workload or {}
        return {
            key: value
            for key, value in after.items()
            if key not in before or not is_equal(before[key], value)
        }


async def look_ahead(plan: Plan, log: Log, blobs: Blobs) -> dict[str, JSON]:
    """Return the preview of a planned fork as JSON."""
    fork, state = plan.fork, plan.point.state
    owners = Owners(log, blobs)
    changed = await find_changed_loops(plan.playbook, fork, state, owners)
    outlook, after = ForkPreview(fork, state, changed), 0
    while page := await log.read(plan.fork.origin, after=after, limit=EVENTS_PER_READ):
        outlook.recall(page)
        after = page[-1].seq
    return outlook.as_json()


def _waiting(queues: Mapping[str, list[Token]]) -> list[str]:
    return [token.id for queue in queues.values() for token in queue]


def _under_way(run: Run) -> dict[str, JSON]:
    labels = [progress.label for _, progress in pipelines(run)]
    return {
        "step": run.step,
        "step_run_id": run.id,
        "task": labels[0] if run.loop is None else None,
        "iterations": _iterations(run.loop) if run.loop is not None else None,
    }


def _iterations(loop: LoopState) -> dict[str, JSON]:
    """Return the progress of the outermost loop: finished iterations are kept."""
    over = loop.done + loop.failed
    return {"total": loop.total, "kept": over, "again": len(loop.open)}


class Forked(msgspec.Struct, frozen=True):
    """A started fork; ``at`` is the last event of the origin that it keeps."""

    started: Started
    at: int


class ForkService:
    """Plans and starts forks; refuses with ``fork.impossible``."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        log: Log,
        catalog: RegisteredCatalog,
        new_id: Callable[[], str],
        limits: PathLimits,
    ) -> None:
        self._limits = limits
        self._orchestrator = orchestrator
        self._log = log
        self._catalog = catalog
        self._new_id = new_id

    async def plan(
        self,
        summary: Summary,
        edits: Edits,
        *,
        newer: ResolvedPlaybook | None,
        at: int | None = None,
        step: str | None = None,
        run: int | None = None,
    ) -> Plan:
        """Plan a fork at the event ``at``, or a retry of a step or of the failed
        steps."""
        origin = await self._origin(summary)
        try:
            start = Start(at) if at is not None else None
            start = start or await find_retry(origin, step, run)
            successor = _successor(newer)
            return await make_plan(origin, start, edits, self._new_id(), successor)
        except ConfigError as error:
            raise RequestRefused("fork.impossible", str(error)) from None

    async def begin(self, plan: Plan, caller: Caller, initiator: Initiator) -> Forked:
        """Commit the start of the fork with its caller, and offer its work to
        workers."""
        await self._limits.admit(plan.playbook.path)
        orchestrator, name = self._orchestrator, plan.fork.execution_id
        fork = msgspec.structs.replace(
            plan.fork, caller=caller, initiator=initiator.as_json()
        )
        try:
            error = await begin_fork(
                orchestrator, plan.playbook, fork, plan.point, self._log
            )
        except ConfigError as refused:
            raise RequestRefused("fork.impossible", str(refused)) from None
        if error is not None:
            message, more = error["message"], {"entries": error.get("entries")}
            raise RequestRefused(error["kind"], message, execution_id=name, **more)
        await orchestrator.recovery.resume_from_log(name)
        summary = await orchestrator.store.summary(name)
        return Forked(Started(name, summary.status), plan.fork.seq)

    async def preview(self, plan: Plan) -> dict[str, JSON]:
        """Return the preview of the fork as JSON."""
        return await look_ahead(plan, self._log, self._orchestrator.blobs)

    async def _origin(self, summary: Summary) -> Origin:
        name, playbook = summary.execution_id, None
        [first] = await self._log.read(name, limit=1)
        about = first.payload["playbook"]
        # a request with a newer playbook does not need that of the origin
        with suppress(BlobGone, ConfigError):
            playbook = await self._catalog.pinned(about)
        blobs = self._orchestrator.blobs
        return Origin(name, self._log, blobs, summary, about, playbook)


def _successor(found: ResolvedPlaybook | None) -> Successor | None:
    if found is None:
        return None
    if found.entry.playbook is None:
        error = found.entry.error
        diagnostics = error.get("diagnostics", [])
        raise RequestRefused(
            "playbook.invalid", error["message"], diagnostics=diagnostics
        )
    return Successor(found.entry.playbook, found.entry.about, "the playbook")
