"""The state of an execution at a point of its log, and what a worker gets of it.

Only ``evolve`` changes the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from noetl.dsl.model import Limits
from noetl.engine.ids import Path, trace_id_of
from noetl.engine.kept_loops import KeptRun
from noetl.engine.runs import Run, iteration_id, pipelines
from noetl.engine.steps.concurrency import Concurrency
from noetl.engine.undone import Undone
from noetl.types import JSON

ExecutionStatus = Literal[
    "running", "waiting", "paused", "completed", "failed", "cancelled", "quarantined"
]


class Token(msgspec.Struct):
    """A token on its way to a step; ``event`` is the boundary event that sent it."""

    id: str
    step: str
    args: dict[str, JSON]
    origin: str | None = None
    event: dict[str, JSON] | None = None


class State(msgspec.Struct):
    """The state of an execution.

    ``parent`` is the calling execution, ``outer`` the iteration of the call.
    ``suspended`` are the pipelines that wait; ``messages`` the signals that no pipeline
    has taken yet; ``listeners`` the pipelines that react to events, each with the
    events that it missed while it was busy. ``spilled`` is set if some value is stored
    elsewhere. ``fork`` is the origin of the first events of the log, and their number.
    ``queued`` is set until the execution has a slot of its ``concurrency`` key.
    ``ignored`` counts the errors that no rule matched. ``reached`` are the steps that a
    token was sent to, None if an earlier version began the execution; ``unfired`` are
    the targets of arcs where none of a step's arcs fired. ``undone`` are events that do
    not count, ``kept`` the iterations that they leave, by the token of their run.
    ``edited`` is set if a fork has other inputs or another playbook than its origin.
    ``trigger`` has the name and the slot of the trigger that sent the request.
    """

    execution_id: str = ""
    status: ExecutionStatus = "running"
    seq: int = 0
    started_at: str = ""
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    tokens: dict[str, Token] = msgspec.field(default_factory=dict)
    joining: dict[str, dict[str, list[Token]]] = msgspec.field(default_factory=dict)
    late: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    runs: dict[str, Run] = msgspec.field(default_factory=dict)
    token_count: int = 0
    run_count: int = 0
    failures: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    cancelling: dict[str, JSON] | None = None
    error: dict[str, JSON] | None = None
    result: JSON = None
    result_of: str | None = None
    result_before: JSON = None
    finished: bool = False
    parent: dict[str, JSON] | None = None
    depth: int = 1
    trace_id: str = ""
    outer: dict[str, JSON] | None = None
    deadline: str | None = None
    paused_at: str | None = None
    suspended: dict[str, str] = msgspec.field(default_factory=dict)
    messages: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    listeners: dict[str, list[dict[str, JSON]]] = msgspec.field(default_factory=dict)
    spilled: bool = False
    fork: dict[str, JSON] | None = None
    concurrency: Concurrency | None = None
    queued: dict[str, JSON] | None = None
    ignored: int = 0
    reached: dict[str, bool] | None = None
    unfired: dict[str, bool] = msgspec.field(default_factory=dict)
    not_reached: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)
    undone: Undone | None = None
    kept: dict[str, KeptRun] = msgspec.field(default_factory=dict)
    edited: bool = False
    trigger: dict[str, JSON] | None = None

    @property
    def family(self) -> str:
        """Name that a root and all executions that descend from it have in common.

        A log of an earlier version does not name the root of a child, but has its trace
        id: at that time it was derived from the root.
        """
        if self.parent is None:
            return trace_id_of(self.execution_id)
        root = self.parent.get("root")
        return trace_id_of(root) if root else self.trace_id

    @property
    def began_at(self) -> str:
        """When the work began, before all forks: the time that templates see."""
        return self.started_at if self.fork is None else self.fork["started_at"]


def take_waiting(queues: dict[str, list[Token]], token_id: str) -> None:
    """Remove a token from the queue of its source at a join."""
    for source, queue in queues.items():
        if queue[0].id == token_id:
            queue.pop(0)
            if not queue:
                del queues[source]
            return
    raise KeyError(token_id)


class Frame(msgspec.Struct, frozen=True):
    """The data of a command: the run, and the values that its templates may read.

    ``most_lost`` is the number of owners that a call may lose before it fails (I-20);
    None if the loss of an owner does not count.
    """

    execution_id: str
    started_at: str
    step: str
    step_run_id: str
    path: tuple[int, ...]
    args: dict[str, JSON]
    ctx: dict[str, JSON]
    workload: dict[str, JSON]
    task_runs: int = Limits().task_runs
    trace_id: str = ""
    spilled: bool = False
    most_lost: int | None = None

    @classmethod
    def of(
        cls,
        state: State,
        run: Run,
        path: Path,
        task_runs: int,
        most_lost: int | None = None,
    ) -> Frame:
        """Return the frame of the pipeline of a run, or of its iteration at
        ``path``."""
        return cls(
            state.execution_id,
            state.began_at,
            run.step,
            run.id,
            path,
            run.args,
            state.ctx,
            state.workload,
            task_runs,
            state.trace_id,
            state.spilled,
            most_lost,
        )


def standing_of(state: State) -> dict[str, JSON] | None:
    """Return the concurrency key, and whether the execution still waits for a slot."""
    if state.concurrency is None:
        return None
    key, limit = state.concurrency.key, state.concurrency.limit
    return {"key": key, "limit": limit, "queued": state.queued is not None}


def is_waiting(state: State) -> bool:
    """Return whether all open pipelines wait for a time, a signal or a child."""
    if not state.suspended or state.tokens:
        return False
    open_pipelines = sum(1 for run in state.runs.values() for _ in pipelines(run))
    return open_pipelines == len(state.suspended)


def status_of(state: State) -> ExecutionStatus:
    """Return the status that users see."""
    if state.status == "running" and (state.queued is not None or is_waiting(state)):
        return "waiting"
    return state.status


def commands_of(state: State) -> Iterator[str]:
    """Yield the ids of all open pipelines."""
    for run in state.runs.values():
        for path, _ in pipelines(run):
            yield iteration_id(run.id, path)
