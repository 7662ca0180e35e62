"""The folds of loops and their iterations."""

from __future__ import annotations

from noetl.engine.events import Event, view
from noetl.engine.progress import begin
from noetl.engine.references import is_reference
from noetl.engine.runs import find_loop, path_of
from noetl.engine.scope import iteration_scope
from noetl.engine.state import Iteration, LoopState, Run, State
from noetl.types import JSON

RESULTS_LIMIT = 48 * 1024  # what loop.done can carry of its results, encoded


def run_in(state: State, event: Event) -> Run:
    """The run that an event is about."""
    return state.runs[event.step_run_id or ""]


def wake(state: State, event: Event) -> None:
    """The event's pipeline waits no more."""
    if state.suspended:
        state.suspended.pop(event.iteration_id or event.step_run_id or "", None)


def loop_started(state: State, event: Event) -> None:
    run, payload = run_in(state, event), event.payload
    path = path_of(event.iteration_id)
    loop = LoopState(
        payload["iterator"], payload["total"], payload["items"], first_seq=event.seq
    )
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = loop
    else:
        run.loop = loop


def iteration_started(state: State, event: Event) -> None:
    run, path = run_in(state, event), path_of(event.iteration_id)
    loop = find_loop(run, path[:-1])
    index, first = path[-1], event.payload.get("first")
    parent = state.outer
    if path[1:]:
        parent = find_loop(run, path[:-2]).open[path[-2]].scope
    scope = iteration_scope(loop.iterator, event.payload["item"], index, parent)
    progress = None
    if first is not None:
        progress = begin(first, scope, event.payload.get("keep", ()))
    loop.open[index] = Iteration(scope, progress)
    loop.next = index + 1


def iteration_done(state: State, event: Event) -> None:
    wake(state, event)
    state.listeners.pop(event.iteration_id or "", None)
    path = path_of(event.iteration_id)
    loop = find_loop(run_in(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.done += 1
    _keep(loop, path[-1], event.payload["result"], event.payload["size"])


def _keep(loop: LoopState, index: int, result: JSON, size: int) -> None:
    """Results wait for the loop's end, until they are too large to travel with it."""
    loop.results_size += size + 1  # and a comma
    if loop.results is None:
        return
    if loop.results_size > RESULTS_LIMIT:
        loop.results = None
    else:
        loop.results[index] = result


def iteration_failed(state: State, event: Event) -> None:
    wake(state, event)
    state.listeners.pop(event.iteration_id or "", None)
    path = path_of(event.iteration_id)
    loop = find_loop(run_in(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.failed += 1
    _keep(loop, path[-1], None, len("null"))
    if loop.error is None:
        # The outermost index, and the id of the innermost one (S-11).
        about = {"iteration_id": event.iteration_id, **event.payload["error"]}
        loop.error = {**about, "iteration": path[-1]}


def loop_done(state: State, event: Event) -> None:
    if is_reference(event.payload["results"]):
        state.spilled = True
    run, path = run_in(state, event), path_of(event.iteration_id)
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = None
    else:
        run.boundary = view(event)
