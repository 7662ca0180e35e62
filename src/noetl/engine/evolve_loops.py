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
from noetl.engine.kept_loops import RESULTS_LIMIT, KeptLoop, KeptRun
from noetl.engine.runs import (
    Iteration,
    LoopState,
    Run,
    begin,
    find_loop,
    iteration_id,
    path_of,
)
from noetl.engine.state import State
from noetl.engine.tasks.scope import apply_patch, iteration_scope, view
from noetl.engine.undone import number_of
from noetl.engine.values.references import is_reference
from noetl.types import JSON

MAX_ERRORS = 100
"""Errors of failed iterations that the end of a loop lists."""
MESSAGE_CHARS = 300
"""Characters of each of their messages."""


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
    if "kept" not in payload:
        if not path:
            run.kept = None
        return
    assert run.kept is not None
    if not path:
        _apply_kept(state, run, run.kept)
    node = run.kept.find(path)
    assert node is not None
    loop.done, loop.results_size = len(node.done), node.size
    loop.results = None if node.results is None else dict(node.results)
    loop.kept = node.ranges[::-1]
    loop.pass_kept()


def _apply_kept(state: State, run: Run, kept: KeptRun) -> None:
    """Apply the patches of the kept iterations, once and in their order (S-76)."""
    state.ctx = apply_patch(state.ctx, kept.set_ctx)
    for key, writer in kept.writers.items():
        run.ctx_writers[key] = iteration_id(run.id, path_of(writer))


def note_undone(state: State, event: Event) -> None:
    """Count the ids that an undone event took; keep the finished iterations of a loop
    that runs again."""
    name, payload, run_id = event.name, event.payload, event.step_run_id or ""
    if name == "next.evaluated":
        state.token_count += len(payload["fired"])
    elif name == "step.scheduled":
        state.run_count += 1
        if state.undone is not None and number_of(run_id) in state.undone.keep:
            token = payload["tokens"][0]
            kept = state.kept.setdefault(token, KeptRun(event.step or "", run_id))
            kept.run = run_id
    if state.kept and run_id:
        for kept in state.kept.values():
            if kept.run == run_id:
                _note_kept(kept, event)


def _note_kept(kept: KeptRun, event: Event) -> None:
    payload, path = event.payload, path_of(event.iteration_id)
    name = event.iteration_id or event.entity_id
    kept.last_seq = event.seq
    match event.name:
        case "loop.started":
            known = kept.find(path)
            if known is None or "kept" not in payload:
                total, items = payload["total"], payload["items"]
                known = KeptLoop(name, items, total, event.seq)
                if not path:
                    kept.set_ctx, kept.writers = {}, {}
                kept.open(path, known)
            known.entity, known.first_seq = name, event.seq
        case "loop.iteration.started" if "first" in payload:
            kept.depth = len(path)
            kept.pending.pop(name, None)
        case "task.done" if payload.get("set_ctx") and "refused" not in payload:
            kept.pending.setdefault(name, []).append(payload["set_ctx"])
        case "loop.iteration.done":
            for patch in kept.pending.pop(name, ()):
                kept.write(name, patch)
            kept.close(path, payload["result"], payload["size"])
        case "loop.iteration.failed":
            kept.pending.pop(name, None)
        case _:
            pass


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
    loop.pass_kept()


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
