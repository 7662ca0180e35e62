"""Loops: the collection fixed once, iterations started, ends counted."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Loop, Step
from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.collection import LoopFailed, collection, expand
from noetl.engine.endings import fail_step, finish_step
from noetl.engine.events import Source
from noetl.engine.ids import Path
from noetl.engine.references import STORE
from noetl.engine.routing import route
from noetl.engine.runs import find_loop
from noetl.engine.state import LoopState, Run
from noetl.types import JSON

DEFAULT_IN_FLIGHT = 10


def begin_loop(batch: Batch, run: Run) -> None:
    """The outermost loop of a step that was just scheduled."""
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
    """One iteration is over; then the loops around it go on, inside out."""
    _close(batch, run, path, error, result, source)
    for depth in range(len(path) - 1, -1, -1):
        if not run.ended:
            turn(batch, run, path[:depth])


def turn(batch: Batch, run: Run, path: Path) -> None:
    """Start what the loop at this path may start; end it when it is over."""
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
    """End an iteration in which nothing is open; its loop does not go on."""
    _close(batch, run, path, error, None, "server")


def _level(step: Step, depth: int) -> Loop:
    level = step.loop
    for _ in range(depth):
        assert level is not None
        level = level.inner
    assert level is not None
    return level


def _may_start(batch: Batch, step: Step, level: Loop, loop: LoopState) -> bool:
    bound = 1
    if level.mode == "parallel":
        bound = level.max_in_flight or DEFAULT_IN_FLIGHT
    return (
        loop.next < loop.total
        and len(loop.open) < bound
        and batch.state.status == "running"
        and not _halted(batch, step, loop)
    )


def _halted(batch: Batch, step: Step, loop: LoopState) -> bool:
    """Fail-fast: after a failure nothing new is started (S-28)."""
    if batch.state.cancelling is not None:
        return True
    return loop.failed > 0 and not step.best_effort


def _open(batch: Batch, run: Run, path: Path) -> None:
    """Fix the collection of the loop at this path. Raises ``LoopFailed``."""
    level = _level(batch.playbook.steps[run.step], len(path))
    scope = batch.scope(run.args).recorded()
    if path:
        scope["iter"] = find_loop(run, path[:-1]).open[path[-1]].scope
    items = collection(level, scope)
    payload = {
        "total": len(expand(items)),
        "items": items,
        "mode": level.mode,
        "iterator": level.iterator,
    }
    _emit(batch, run, "loop.started", path, payload, "server")


def _start(
    batch: Batch, run: Run, level: Loop, path: Path, item: JSON, step: Step
) -> None:
    payload: dict[str, JSON] = {"item": item}
    if level.inner is None:
        payload["first"] = step.tasks[0].label
        if step.keep:
            payload["keep"] = list(step.keep)
    _emit(batch, run, "loop.iteration.started", path, payload, "server")


def _close(
    batch: Batch,
    run: Run,
    path: Path,
    error: dict[str, JSON] | None,
    result: JSON,
    source: Source,
) -> None:
    if error is not None:
        failed = {"error": error}
        _emit(batch, run, "loop.iteration.failed", path, failed, source)
        return
    done = {"result": result, "size": len(msgspec.json.encode(result))}
    _emit(batch, run, "loop.iteration.done", path, done, source)


def _end(batch: Batch, run: Run, path: Path, loop: LoopState, *, failed: bool) -> None:
    if failed:
        error = loop.error or batch.state.cancelling or {}
        if path:
            _close(batch, run, path, error, None, "server")
        else:
            fail_step(batch, run, error)
        return
    body = _summary(loop, ids.iteration_id(run.id, path), batch.state.seq)
    _emit(batch, run, "loop.done", path, body, "server")
    if path:
        _close(batch, run, path, None, body["results"], "server")
    else:
        route(batch, run, on="loop.done")
        finish_step(batch, run, body["results"], "server")


def _summary(loop: LoopState, entity: str, last_seq: int) -> dict[str, JSON]:
    """Counts, and results in index order: too large, they are read from the log."""
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
    return {
        "total": loop.total,
        "done": loop.done,
        "failed": loop.failed,
        "skipped": loop.total - loop.done - loop.failed,
        "results": results,
    }


def _emit(
    batch: Batch,
    run: Run,
    name: str,
    path: Path,
    payload: dict[str, JSON],
    source: Source,
) -> None:
    entity = ids.iteration_id(run.id, path)
    batch.emit(
        name,
        entity,
        payload,
        source=source,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
        iteration_id=entity if path else None,
    )
