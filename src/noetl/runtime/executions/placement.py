"""Placement of pipelines: the pool of each command, and grants of new pipelines in the
commit that makes them ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from noetl.dsl.model import Step
from noetl.dsl.rates import LIMITS
from noetl.engine.effects import Effects
from noetl.engine.limits import CODE_KINDS, Ceilings
from noetl.engine.recorder import Batch
from noetl.engine.reports.accept import Fact, record
from noetl.engine.runs import find_open, find_progress, path_of
from noetl.engine.state import Frame
from noetl.engine.waits.suspend import SUSPENDING
from noetl.ports import Command, Lease
from noetl.runtime.dispatcher import WorkItem
from noetl.runtime.executions.loaded import InboxItem, LoadedExecution, StepTurns
from noetl.types import JSON

LEASE_TTL_S = 30.0
"""Seconds that a lease lasts without a heartbeat."""

MAX_LOST_WORKERS = 5
"""Workers that may be lost while they run one command (I-20)."""

TIME_SLICE_S = 0.5
"""Seconds for which a slot gets the pipelines that its own reports make ready. Then it
claims, and another execution may be served: a loop of long tasks delays others by one
task at most, a loop of short tasks claims rarely.
"""

DEFAULT_POOL = "default"


class Placement(msgspec.Struct):
    """The pools of commands, and the limits of this host.

    ``pool`` is the pool of all commands; if it is None, each step names its own (S-64).
    ``shared``: other processes may act for this one. ``is_awaited`` returns, by the
    path of a playbook, whether a handler awaits the end of its executions. ``exports``
    are the names of exports that take each execution. ``ceilings`` are the operator's
    limits.
    """

    pool: str | None = None
    shared: bool = False
    ttl: float = LEASE_TTL_S
    is_awaited: Callable[[str | None], bool] = lambda path: False
    ceilings: Ceilings = Ceilings()
    exports: Sequence[str] = ()

    @property
    def max_lost_workers(self) -> int | None:
        """Return the limit; None in an embedded run, whose process is the worker."""
        return MAX_LOST_WORKERS if self.pool is None else None

    def pool_of(self, loaded: LoadedExecution, command_id: str) -> str:
        if self.pool is not None:
            return self.pool
        return self._pool(_step_of(loaded, command_id))

    def first_pool(self, loaded: LoadedExecution) -> str:
        """Return the pool of the entry step."""
        return self._pool(loaded.playbook.entry)

    def _pool(self, step: Step | None) -> str:
        if self.pool is not None:
            return self.pool
        spec = step.tasks[0].spec if step is not None and step.tasks else {}
        return str(spec.get("pool", DEFAULT_POOL))

    def refusal_of(self, step: Step) -> dict[str, JSON] | None:
        """Return the error of a step with code in a pool that runs none; None if the
        step may run. An embedded run executes what its user starts."""
        if self.pool is not None:
            return None
        if not any(task.kind in CODE_KINDS for task in step.tasks):
            return None
        return self.ceilings.code_refusal(step, self._pool(step))

    def affinity_of(self, loaded: LoadedExecution, command_id: str) -> str | None:
        """Return the prefix of the commands that one worker runs together: all of a
        local loop (LOOP-06). None if any worker may take the command."""
        if self.pool is not None or "/" not in command_id:
            return None
        run_id, *path = command_id.split("/")
        loop = loaded.playbook.steps[loaded.state.runs[run_id].step].loop
        for depth, level in enumerate(loop.levels() if loop is not None else ()):
            if level.placement == "local":
                return "/".join([run_id, *path[:depth]])
        return None

    def plan(self, loaded: LoadedExecution, effects: Effects) -> list[Command]:
        """Return the commands of the pipelines that become ready or wait, without
        those that end in the same commit."""
        over = set(effects.over)
        planned = {**dict.fromkeys(effects.ready, 0.0), **effects.parked}
        turns = loaded.turns
        commands = [
            Command(
                name,
                loaded.state.execution_id,
                self.pool_of(loaded, name),
                due,
                self.affinity_of(loaded, name),
                waits=_only_waits(loaded, name, parked=name in effects.parked),
                turn=turns.now if name in effects.parked else next_place(turns, name),
            )
            for name, due in planned.items()
            if name not in over
        ]
        note_begun(turns, effects.begun, effects.over)
        return commands


def next_place(turns: StepTurns, command_id: str) -> int:
    """Return the place of a command that becomes ready."""
    run_id = command_id.partition("/")[0]
    place = max(turns.now, turns.last.get(run_id, -1) + 1)
    turns.last[run_id] = turns.waiting[command_id] = place
    return place


def note_begun(turns: StepTurns, begun: Iterable[str], over: Iterable[str]) -> None:
    """Note commands whose workers have begun them, and ended ones."""
    for command_id in begun:
        turns.now = max(turns.now, turns.waiting.pop(command_id, 0))
    for command_id in over:
        turns.waiting.pop(command_id, None)
        turns.last.pop(command_id, None)


def _only_waits(loaded: LoadedExecution, command_id: str, *, parked: bool) -> bool:
    """Return whether the next task of a pipeline only waits. A parked pipeline goes on
    with the task after it: then all tasks of the step must."""
    tasks = _step_of(loaded, command_id).tasks
    if not parked:
        return not tasks or tasks[0].kind in SUSPENDING
    return all(task.kind in SUSPENDING for task in tasks)


def make_work_item(
    loaded: LoadedExecution, lease: Lease, placement: Placement, *, begun: bool = False
) -> WorkItem:
    """Build the work item of a lease from the state of its execution."""
    state = loaded.state
    run = state.runs[lease.command_id.split("/")[0]]
    path = path_of(lease.command_id)
    max_lost = placement.max_lost_workers
    most = loaded.playbook.limits.task_runs
    frame = Frame.of(state, run, path, most, max_lost)
    progress = find_progress(run, path).copy()
    if begun:
        progress.started = False  # this worker is the first: nothing is in doubt
    return WorkItem(
        lease,
        loaded.playbook,
        frame,
        progress,
        loaded.secrets,
        loaded.about.get("source", ""),
        loaded.about.get("folder"),
        begun,
    )


def grant(
    loaded: LoadedExecution,
    batch: Batch,
    items: Sequence[InboxItem],
    placement: Placement,
    ready: list[str],
) -> list[Lease]:
    """Lease ``ready`` pipelines to the prefetching slots, and record their start.

    One commit then ends a step and begins the next one. Effects are derived after
    this: a start may wake a pipeline that waits for it.
    """
    state = batch.state
    if state.status != "running" or state.cancelling is not None:
        return []
    leases: list[Lease] = []
    for item in items:
        prefetch, answer = item.prefetch, item.answer
        if prefetch is None or answer is None or (item.lease and not answer.stop):
            continue
        command_id = next(
            (one for one in ready if _suits(loaded, one, item, placement)), None
        )
        if command_id is None:
            continue
        ready.remove(command_id)
        _begin(batch, command_id)
        lease = Lease(command_id, state.execution_id, prefetch.owner, 1)
        answer.work = make_work_item(loaded, lease, placement, begun=True)
        leases.append(lease)
    return leases


def _suits(
    loaded: LoadedExecution, command_id: str, item: InboxItem, placement: Placement
) -> bool:
    """Check pool, code policy and affinity: a worker gets more iterations of a local
    loop only if it runs one of them already; the first one is claimed."""
    prefetch, step = item.prefetch, _step_of(loaded, command_id)
    if prefetch is None or placement.pool_of(loaded, command_id) != prefetch.pool:
        return False
    if placement.refusal_of(step) is not None:
        return False  # a claim will refuse it
    if not LIMITS.isdisjoint(step.tasks[0].spec):
        return False  # its worker asks for the call before it records the start
    affinity = placement.affinity_of(loaded, command_id)
    if affinity is None:
        return True
    return item.lease is not None and item.lease.command_id.startswith(f"{affinity}/")


def _step_of(loaded: LoadedExecution, command_id: str) -> Step:
    run_id = command_id.partition("/")[0]
    return loaded.playbook.steps[loaded.state.runs[run_id].step]


def refusal_of(
    loaded: LoadedExecution, command_id: str, placement: Placement
) -> dict[str, JSON] | None:
    """Return the error of a pipeline that its pool must not run; None if it may."""
    return placement.refusal_of(_step_of(loaded, command_id))


def _begin(batch: Batch, command_id: str) -> None:
    command = find_open(batch.state.runs, command_id)
    assert command is not None, "these events made the command ready"
    progress = command.progress
    facts = [Fact("task.started", progress.label, progress.attempt)]
    if not command.path:
        facts.insert(0, Fact("step.started"))
    record(batch, command, facts)
