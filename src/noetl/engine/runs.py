"""Step runs: the positions of their pipelines, their loops and iterations.

The worker moves a position forward live, the server folds it from ``task.done`` events,
and a new owner of the run starts from it. There is no other record of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from noetl.engine.events import TaskDone, TaskSuspended
from noetl.engine.ids import Path
from noetl.engine.kept_loops import KeptRun
from noetl.engine.tasks.scope import apply_patch
from noetl.types import JSON


class Waiting(msgspec.Struct):
    """A wait of a suspended pipeline.

    ``since`` is when it began, ``until`` when it ends without an answer. The data of a
    signal must fit ``schema``, and its sender needs one of ``roles``. ``answer`` ends
    the wait: the signal's data under ``data``, the result of the child, or the event
    that a guard accepted. ``timers`` are the remaining ones, the next one first.
    """

    on: Literal["delay", "limit", "timer", "signal", "playbook", "event"]
    until: str | None = None
    signal: str | None = None
    child: dict[str, JSON] | None = None
    answer: dict[str, JSON] | None = None
    timers: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    since: str | None = None
    schema: JSON = None
    roles: list[str] | None = None


class Progress(msgspec.Struct):
    """The position of a pipeline. ``label`` is the next task, None after the end.

    ``delay`` is the remaining delay of a retry in seconds; ``in_doubt`` counts owners
    that were lost after ``task.started`` of this attempt. ``outcomes`` are those that
    templates name by their labels, null until the task has ended.
    """

    label: str | None
    attempt: int = 1
    visits: dict[str, int] = msgspec.field(default_factory=dict)
    started: bool = False
    in_doubt: int = 0
    delay: float = 0.0
    prev: JSON = None
    result: JSON = None
    iter: dict[str, JSON] | None = None
    tasks: int = 0
    end: Literal["done", "failed"] | None = None
    error: dict[str, JSON] | None = None
    waiting: Waiting | None = None
    outcomes: dict[str, JSON] = msgspec.field(default_factory=dict)

    def copy(self) -> Progress:
        """Return a copy; values are never changed in place, so they are shared."""
        return msgspec.structs.replace(self, visits=dict(self.visits))

    def task_run_id(self, command_id: str) -> str:
        """Return the id of this entry into the task; its retries share the id."""
        label = self.label or ""
        return f"{command_id}:{label}.{self.visits[label]}"


class LoopState(msgspec.Struct):
    """One loop instance: open iterations and counts, without finished iterations.

    ``results`` holds small results until they are too large for one event; then it is
    None, and they are only in the log. ``writers`` are the iterations that wrote a key
    of ctx, for the write-once rule of parallel loops. ``errors`` are the first ones of
    failed iterations, ``error_kinds`` counts all of them. ``kept`` are ranges of
    iterations that an earlier run has done, the last one first.
    """

    iterator: str
    total: int
    items: JSON
    first_seq: int
    next: int = 0
    open: dict[int, Iteration] = msgspec.field(default_factory=dict)
    done: int = 0
    failed: int = 0
    error: dict[str, JSON] | None = None
    results: dict[int, JSON] | None = msgspec.field(default_factory=dict)
    results_size: int = 0
    errors: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    error_kinds: dict[str, int] = msgspec.field(default_factory=dict)
    kept: list[tuple[int, int]] = msgspec.field(default_factory=list)

    def pass_kept(self) -> None:
        """Move on to the next iteration that is not kept."""
        while self.kept and self.kept[-1][0] <= self.next:
            self.next = max(self.next, self.kept.pop()[1] + 1)


class Iteration(msgspec.Struct):
    """An open iteration: a pipeline, or the loop inside it."""

    scope: dict[str, JSON]
    progress: Progress | None = None
    loop: LoopState | None = None


class Run(msgspec.Struct):
    """One firing of a step. ``boundary`` is its end event until its arcs are evaluated,
    ``outcomes`` are those that the arcs may name, ``kept`` the iterations that earlier
    runs have done."""

    id: str
    step: str
    args: dict[str, JSON]
    has_arcs: bool
    tokens: list[str] = msgspec.field(default_factory=list)
    progress: Progress | None = None
    loop: LoopState | None = None
    boundary: dict[str, JSON] | None = None
    routed: bool = False
    ended: bool = False
    ctx_writers: dict[str, str] = msgspec.field(default_factory=dict)
    deadline: str | None = None
    outcomes: dict[str, JSON] = msgspec.field(default_factory=dict)
    kept: KeptRun | None = None


class Command(NamedTuple):
    """An open pipeline by the id of its command: of a run, or of the iteration at
    ``path``."""

    id: str
    run: Run
    path: Path
    progress: Progress


# -- lookups ---------------------------------------------------------------------


def iteration_id(run: str, path: Path) -> str:
    """Return ``<step_run_id>/<i>[/<j>…]``, which is the id of the command as well."""
    if not path:
        return run
    if len(path) == 1:
        return f"{run}/{path[0]}"
    return "/".join([run, *map(str, path)])


@lru_cache(maxsize=4_096)  # decisions, folds and work items use the same ids
def path_of(iteration_id: str | None) -> Path:
    """Return the indices in an iteration's id."""
    if iteration_id is None:
        return ()
    return tuple([int(part) for part in iteration_id.split("/")[1:]])


def run_of(command_id: str) -> str:
    """Return the id of the step run that a command belongs to."""
    return command_id.partition("/")[0]


def find_loop(run: Run, path: Path) -> LoopState:
    """Return the loop instance that an iteration path leads into."""
    loop = run.loop
    for index in path:
        assert loop is not None
        loop = loop.open[index].loop
    assert loop is not None
    return loop


def find_progress(run: Run, path: Path) -> Progress:
    """Return the pipeline of a run, or of the iteration that the path names."""
    progress = run.progress
    if path:
        progress = find_loop(run, path[:-1]).open[path[-1]].progress
    assert progress is not None
    return progress


def find_open(runs: Mapping[str, Run], command_id: str) -> Command | None:
    """Return the command, or None if its pipeline has ended."""
    run, path = runs.get(run_of(command_id)), path_of(command_id)
    if run is None:
        return None
    loop, progress = run.loop, run.progress
    for index in path:
        iteration = loop.open.get(index) if loop is not None else None
        if iteration is None:
            return None
        loop, progress = iteration.loop, iteration.progress
    return None if progress is None else Command(command_id, run, path, progress)


def is_pending(runs: Mapping[str, Run], command_id: str) -> bool:
    """Return whether the command's pipeline has not ended."""
    return find_open(runs, command_id) is not None


def loop_paths(run: Run) -> Iterator[Path]:
    """Yield every open loop of a run, each before those inside it."""
    if run.loop is not None:
        yield ()
        yield from _loops_inside(run.loop, ())


def _loops_inside(loop: LoopState, path: Path) -> Iterator[Path]:
    for index, iteration in loop.open.items():
        if iteration.loop is not None:
            yield (*path, index)
            yield from _loops_inside(iteration.loop, (*path, index))


def pipelines(run: Run) -> Iterator[tuple[Path, Progress]]:
    """Yield every open pipeline of a run, with its path."""
    if run.progress is not None:
        yield (), run.progress
    if run.loop is not None:
        yield from _inside(run.loop, ())


def _inside(loop: LoopState, path: Path) -> Iterator[tuple[Path, Progress]]:
    for index, iteration in loop.open.items():
        here = (*path, index)
        if iteration.progress is not None:
            yield here, iteration.progress
        if iteration.loop is not None:
            yield from _inside(iteration.loop, here)


# -- folds of a pipeline's position ----------------------------------------------


def begin(
    first: str, iteration: dict[str, JSON] | None, keep: Sequence[str] = ()
) -> Progress:
    """Return the position before the first task."""
    outcomes = dict.fromkeys(keep)
    return Progress(first, visits={first: 1}, iter=iteration, outcomes=outcomes)


def note_started(progress: Progress) -> None:
    if progress.started:
        progress.in_doubt += 1
    progress.started = True
    progress.delay = 0.0
    progress.waiting = None


def note_done(progress: Progress, payload: TaskDone) -> None:
    """Apply one ``task.done``: patches, ``_prev``, the next label."""
    directive, result = payload["directive"], payload["outcome"]["result"]
    do = directive["do"]
    if payload.get("set_iter") and progress.iter is not None:
        progress.iter = apply_patch(progress.iter, payload["set_iter"])
    if do not in ("retry", "skip"):
        progress.prev = result
    if do != "skip":
        progress.result = result
    if progress.label in progress.outcomes:
        label = progress.label or ""
        kept = {**payload["outcome"], "visits": progress.visits[label]}
        progress.outcomes = {**progress.outcomes, label: kept}
    progress.tasks += 1
    progress.started, progress.in_doubt = False, 0
    progress.waiting = None
    if do == "retry":
        progress.attempt += 1
        progress.delay = directive["delay"]
        return
    following = directive.get("next")
    progress.label, progress.attempt = following, 1  # S-14: each visit counts from one
    if following is not None:
        progress.visits[following] = progress.visits.get(following, 0) + 1
    else:
        progress.end = "failed" if do == "fail" else "done"
        progress.error = payload.get("error")


def note_forked(progress: Progress, first: str | None) -> None:
    """Restart the open attempt in a fork; it does not count as in doubt.

    A wait that has ended keeps its answer. ``first`` is the first task in a newer
    playbook, used if the pipeline has not run a task yet.
    """
    if progress.waiting is not None and progress.waiting.answer is not None:
        return
    progress.started, progress.in_doubt = False, 0
    progress.delay, progress.waiting = 0.0, None
    if first is not None and not progress.tasks:
        progress.label, progress.visits = first, {first: 1}


def note_suspended(progress: Progress, payload: TaskSuspended, since: str) -> None:
    progress.delay = 0.0
    progress.waiting = Waiting(
        payload["on"],
        payload["until"],
        payload.get("signal"),
        payload.get("child"),
        timers=payload.get("timers", []),
        since=since,
        schema=payload.get("schema"),
        roles=payload.get("roles"),
    )
