"""Folding of loops and their iterations."""

from __future__ import annotations

from noetl.dsl.node import shorten
from noetl.engine.events import (
    Event,
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopDone,
    LoopStarted,
)
from noetl.engine.runs import Iteration, LoopState, Run, begin, find_loop, path_of
from noetl.engine.state import State
from noetl.engine.tasks.scope import iteration_scope, view
from noetl.engine.values.references import is_reference
from noetl.types import JSON

MAX_ERRORS = 100
"""Errors of failed iterations that the end of a loop lists."""
MESSAGE_CHARS = 300
"""Characters of each of their messages."""
RESULTS_LIMIT = 48 * 1024  # bytes of encoded results that loop.done can hold


def _run_of(state: State, event: Event) -> Run:
    """Return the run that an event belongs to."""
    return state.runs[event.step_run_id or ""]


def loop_started(state: State, event: Event, payload: LoopStarted) -> None:
    run = _run_of(state, event)
    path = path_of(event.iteration_id)
    loop = LoopState(
        payload["iterator"], payload["total"], payload["items"], first_seq=event.seq
    )
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = loop
    else:
        run.loop = loop


def iteration_started(state: State, event: Event, payload: IterationStarted) -> None:
    run, path = _run_of(state, event), path_of(event.iteration_id)
    loop = find_loop(run, path[:-1])
    index, first = path[-1], payload.get("first")
    parent = state.outer
    if path[1:]:
        parent = find_loop(run, path[:-2]).open[path[-2]].scope
    scope = iteration_scope(loop.iterator, payload["item"], index, parent)
    progress = None
    if first is not None:
        progress = begin(first, scope, payload.get("keep", ()))
    loop.open[index] = Iteration(scope, progress)
    loop.next = index + 1


def iteration_done(state: State, event: Event, payload: IterationDone) -> None:
    state.listeners.pop(event.iteration_id or "", None)
    path = path_of(event.iteration_id)
    loop = find_loop(_run_of(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.done += 1
    _keep(loop, path[-1], payload["result"], payload["size"])


def _keep(loop: LoopState, index: int, result: JSON, size: int) -> None:
    """Keep the result for the end of the loop, unless all results exceed one event."""
    loop.results_size += size + 1  # and a comma
    if loop.results is None:
        return
    if loop.results_size > RESULTS_LIMIT:
        loop.results = None
    else:
        loop.results[index] = result


def _keep_error(loop: LoopState, index: int, error: dict[str, JSON]) -> None:
    """Count the error by its kind, and keep the first ones for the end of the loop
    (S-73)."""
    kind = error["kind"]
    loop.error_kinds[kind] = loop.error_kinds.get(kind, 0) + 1
    if len(loop.errors) < MAX_ERRORS:
        short = shorten(error["message"], MESSAGE_CHARS)
        loop.errors.append({"index": index, "kind": kind, "message": short})


def iteration_failed(state: State, event: Event, payload: IterationFailed) -> None:
    state.listeners.pop(event.iteration_id or "", None)
    path = path_of(event.iteration_id)
    loop = find_loop(_run_of(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.failed += 1
    _keep(loop, path[-1], None, len("null"))
    _keep_error(loop, path[-1], payload["error"])
    if loop.error is None:
        # The outermost index, and the id of the innermost one (S-11).
        about = {"iteration_id": event.iteration_id, **payload["error"]}
        loop.error = {**about, "iteration": path[-1]}


def loop_done(state: State, event: Event, payload: LoopDone) -> None:
    if is_reference(payload["results"]):
        state.spilled = True
    run, path = _run_of(state, event), path_of(event.iteration_id)
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = None
    else:
        run.boundary = view(event)
