"""Loops: fix the collection once, start iterations, count ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from noetl.dsl.model import Loop, Step
from noetl.engine.events import (
    ITERATION_DONE,
    ITERATION_FAILED,
    ITERATION_STARTED,
    LOOP_DONE,
    LOOP_STARTED,
    EventType,
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopDone,
    LoopStarted,
    Source,
)
from noetl.engine.ids import Path
from noetl.engine.kept_loops import KeptLoop
from noetl.engine.recorder import Batch
from noetl.engine.runs import LoopState, Run, find_loop, iteration_id
from noetl.engine.steps.routing import (
    fail_step,
    finish_step,
    iteration_errors,
    route,
)
from noetl.engine.tasks.outcome import Failure
from noetl.engine.tasks.scope import Scope, is_equal, place_of
from noetl.engine.values.references import STORE
from noetl.engine.waits.resume import announce
from noetl.errors import TemplateError
from noetl.templates import Template, Undefined
from noetl.types import JSON

MAX_ITEMS = 1_000_000
_NOUNS = {dict: "a mapping", str: "text", bool: "a boolean", type(None): "null"}


class LoopFailed(Exception):
    """Error of a value that is not a collection: the step or outer iteration fails."""

    def __init__(
        self, kind: str, message: str, details: dict[str, JSON] | None = None
    ) -> None:
        super().__init__(message)
        failure = Failure(kind, message, details=details or {})
        self.error: dict[str, JSON] = msgspec.to_builtins(failure)


def collection(loop: Loop, scope: Scope) -> JSON:
    """Return a list, or ``{start, stop, step}`` of a range. Raises ``LoopFailed``."""
    try:
        if isinstance(loop.items, Template):
            whole = loop.items.whole_range(scope)
            if whole is not None:
                _check_size(len(whole))
                return {"start": whole.start, "stop": whole.stop, "step": whole.step}
            value = loop.items.evaluate(scope)
        else:
            value = loop.items.render(scope)
    except TemplateError as error:
        error.place = place_of(loop.at.get("in") or loop.at, error)
        message = f"loop.in: {error.message}"
        raise LoopFailed(error.kind, message, error.details()) from None
    if isinstance(value, Undefined):
        raise LoopFailed("loop.in_type", "loop.in is undefined; expected a list")
    if not isinstance(value, list):
        found = _NOUNS.get(type(value), "a number")
        raise LoopFailed("loop.in_type", f"loop.in is {found}; expected a list")
    _check_size(len(value))
    return value


def _check_size(size: int) -> None:
    if size > MAX_ITEMS:
        raise LoopFailed("loop.too_many", f"{size:,} items; at most {MAX_ITEMS:,}")


def expand(items: JSON) -> Sequence[JSON]:
    """Return the items to iterate over, without creating a range's numbers."""
    if isinstance(items, list):
        return items
    return range(items["start"], items["stop"], items["step"])


DEFAULT_IN_FLIGHT = 10
P = TypeVar("P")


def begin_loop(batch: Batch, run: Run) -> None:
    """Begin the outermost loop of a step that was just scheduled."""
    try:
        _open(batch, run, ())
    except LoopFailed as failed:
        fail_step(batch, run, failed.error)
    else:
        turn(batch, run, ())


def end_iteration(
    batch: Batch,
    run: Run,
    path: Path,
    error: dict[str, JSON] | None,
    result: JSON,
    source: Source = "server",
) -> None:
    """End one iteration; then continue the loops around it, inside out."""
    _close(batch, run, path, error, result, source)
    for depth in range(len(path) - 1, -1, -1):
        turn(batch, run, path[:depth])  # only the outermost one ends the run


def turn(batch: Batch, run: Run, path: Path) -> None:
    """Start the iterations that the loop may start; end the loop when all have
    ended."""
    step = batch.playbook.steps[run.step]
    loop = find_loop(run, path)
    level = _level(step, len(path))
    while _may_start(batch, step, level, loop) and batch.may_move():
        here = (*path, loop.next)
        items = expand(batch.values.fetch(loop.items))
        _start(batch, run, level, here, items[loop.next], step)
        if level.inner is None:
            continue
        try:
            _open(batch, run, here)
        except LoopFailed as failed:
            _close(batch, run, here, failed.error, None, "server")
        else:
            turn(batch, run, here)
    if not loop.open and (loop.next >= loop.total or _halted(batch, step, loop)):
        _end(batch, run, path, loop, failed=_halted(batch, step, loop))


def close_iteration(batch: Batch, run: Run, path: Path, error: dict[str, JSON]) -> None:
    """End an iteration in which nothing is open, without continuing its loop."""
    _close(batch, run, path, error, None, "server")


def _level(step: Step, depth: int) -> Loop:
    level = step.loop
    for _ in range(depth):
        assert level is not None
        level = level.inner
    assert level is not None
    return level


def _may_start(batch: Batch, step: Step, level: Loop, loop: LoopState) -> bool:
    return (
        loop.next < loop.total
        and len(loop.open) < most_open(level)
        and batch.state.status == "running"
        and not _halted(batch, step, loop)
    )


def most_open(level: Loop) -> int:
    """Return the most iterations of a loop that may be open at a time."""
    if level.mode == "sequential":
        return 1
    return level.max_in_flight or DEFAULT_IN_FLIGHT


def _halted(batch: Batch, step: Step, loop: LoopState) -> bool:
    """Return whether a failure stops further iterations: fail-fast (S-28)."""
    if batch.state.cancelling is not None:
        return True
    return loop.failed > 0 and not step.best_effort


def _open(batch: Batch, run: Run, path: Path) -> None:
    """Fix the collection of the loop at this path; a loop that is retried has that of
    its earlier run. Raises ``LoopFailed``."""
    step = batch.playbook.steps[run.step]
    level, kept = _level(step, len(path)), _find_kept(run, step, path)
    if kept is None or batch.state.edited:
        items = _evaluate_items(batch, run, level, path)
        if kept is not None and not is_equal(items, batch.values.fetch(kept.items)):
            kept = None
    if kept is not None:
        items = kept.items
    payload: LoopStarted = {
        "total": len(expand(items)) if kept is None else kept.total,
        "items": items,
        "mode": level.mode,
        "iterator": level.iterator,
        "max_in_flight": most_open(level),
    }
    if kept is not None and run.kept is not None:
        payload["kept"] = kept.as_json(run.kept.last_seq)
    _emit(batch, run, LOOP_STARTED, path, payload, "server")


def _find_kept(run: Run, step: Step, path: Path) -> KeptLoop | None:
    """Return what is kept of the loop, if the step has as many loops as before."""
    if run.kept is None or step.loop is None:
        return None
    if run.kept.depth != len(list(step.loop.levels())):
        return None
    return run.kept.find(path)


def _evaluate_items(batch: Batch, run: Run, level: Loop, path: Path) -> JSON:
    scope = batch.scope(run.args).recorded()
    if path:
        scope["iter"] = find_loop(run, path[:-1]).open[path[-1]].scope
    return collection(level, scope)


def _start(
    batch: Batch, run: Run, level: Loop, path: Path, item: JSON, step: Step
) -> None:
    payload: IterationStarted = {"item": item}
    if level.inner is None:
        payload["first"] = step.tasks[0].label
        if step.keep:
            payload["keep"] = list(step.keep)
    _emit(batch, run, ITERATION_STARTED, path, payload, "server")


def _close(
    batch: Batch,
    run: Run,
    path: Path,
    error: dict[str, JSON] | None,
    result: JSON,
    source: Source,
) -> None:
    if error is not None:
        failed: IterationFailed = {"error": error}
        _emit(batch, run, ITERATION_FAILED, path, failed, source)
        return
    size = len(msgspec.json.encode(result))
    done: IterationDone = {"result": result, "size": size}
    _emit(batch, run, ITERATION_DONE, path, done, source)


def _end(batch: Batch, run: Run, path: Path, loop: LoopState, *, failed: bool) -> None:
    if failed:
        error = loop.error or batch.state.cancelling or {}
        if path:
            _close(batch, run, path, error, None, "server")
        else:
            fail_step(batch, run, error)
        return
    body = _summary(loop, iteration_id(run.id, path), batch.state.seq)
    _emit(batch, run, LOOP_DONE, path, body, "server")
    if path:
        _close(batch, run, path, None, body["results"], "server")
    else:
        route(batch, run, on="loop.done")
        finish_step(batch, run, body["results"], "server")


def _summary(loop: LoopState, entity: str, last_seq: int) -> LoopDone:
    """Return counts, and results in index order; large results are read from the
    log."""
    results: JSON
    if loop.results is None:
        results = {
            "store": STORE,
            "key": f"log:{entity}",
            "range": f"{loop.first_seq}-{last_seq}",
            "size": loop.results_size,
            "schema_hint": "list",
        }
    else:
        results = [loop.results.get(index) for index in range(loop.total)]
    summary: LoopDone = {
        "total": loop.total,
        "done": loop.done,
        "failed": loop.failed,
        "skipped": loop.total - loop.done - loop.failed,
        "results": results,
    }
    if loop.errors:
        summary["errors"] = iteration_errors(loop)
        summary["error_kinds"] = dict(loop.error_kinds)
    return summary


def _emit(
    batch: Batch,
    run: Run,
    kind: EventType[P],
    path: Path,
    payload: P,
    source: Source,
) -> None:
    entity = iteration_id(run.id, path)
    event = batch.emit(
        kind,
        entity,
        payload,
        source=source,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
        iteration_id=entity if path else None,
    )
    if batch.state.listeners:
        announce(batch, event)
