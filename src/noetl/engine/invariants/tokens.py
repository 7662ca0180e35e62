"""Invariants of tokens, routing and step runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.engine.events import Event
from noetl.engine.invariants.books import Books, Check, OpenRun, Pipe
from noetl.engine.undone import number_of
from noetl.types import JSON

# -- tokens ----------------------------------------------------------------------


def _make(books: Books, tokens: Iterable[JSON]) -> None:
    """Enter new tokens: their ids count on, so that none is made twice."""
    for token in tokens:
        books.token_count += 1
        name = f"{books.execution_id}.t{books.token_count}"
        if token["token_id"] != name:
            books.blame("I-11", f"token {token['token_id']} is made", f"token {name}")
        books.tokens[token["token_id"]] = token["step"]


def _take(books: Books, event: Event, names: Iterable[str]) -> None:
    """Take tokens off the books; each is pending, and on its way to this step."""
    for name in names:
        step = books.tokens.pop(name, None)
        books.joined.discard(name)
        if step is None:
            message = f"token {name} ends twice, or was never made"
            books.blame("I-11", message, "a pending token")
        elif step != event.step:
            books.blame("I-11", f"token {name} is taken by {event.step}", f"by {step}")


def _started(books: Books, event: Event) -> None:
    payload = event.payload
    if books.begun:
        books.blame("I-31", "the workload is set twice", "one workflow.started")
    books.begun, books.deadline = True, payload["deadline"]
    _make(books, [payload["token"]])


def _joined(books: Books, event: Event) -> None:
    name = event.payload["token_id"]
    if event.payload.get("discarded"):
        _take(books, event, [name])
        return
    if name in books.joined:
        books.blame("I-11", f"token {name} joins twice", "one arrival at the join")
    step = books.tokens.get(name)
    if step != event.step:
        message = f"token {name} joins at {event.step}"
        books.blame("I-11", message, f"a token on its way to {event.step}")
    books.joined.add(name)


def _skipped(books: Books, event: Event) -> None:
    _judge_gate(books, event, allow=False)
    _take(books, event, event.payload["tokens"])


def _judge_gate(books: Books, event: Event, *, allow: bool) -> None:
    """Check that the gate's answer and its consequence agree."""
    if not event.payload["tokens"]:
        books.blame("I-11", f"{event.name} takes no token", "one token or more")
    if event.payload["admit"]["allow"] is not allow:
        word = "admits" if allow else "denies"
        books.blame("I-11", f"{event.name} against the gate", f"a gate that {word}")


def _evaluated(books: Books, event: Event) -> None:
    """I-12: one boundary, routed once; the arcs that fired send the tokens."""
    payload, run = event.payload, books.runs.get(event.step_run_id or "")
    on, fired = payload["on"], payload["fired"]
    if run is None or run.boundary != on:
        message = f"{on} of {event.step_run_id} is routed"
        books.blame("I-12", message, "a boundary that is recorded, and routed once")
    answers = [arc["step"] for arc in payload["arcs"] if arc["fired"]]
    if [token["step"] for token in fired] != answers:
        message = "the tokens are not those of the arcs that fired"
        books.blame("I-12", message, ", ".join(answers) or "none")
    if payload["mode"] == "exclusive" and len(fired) > 1:
        books.blame("I-12", f"an exclusive router fired {len(fired)} arcs", "one")
    if books.playbook is not None:
        _judge_arcs(books, event)
    _make(books, fired)
    if run is not None:
        run.boundary = None
        run.routed = run.routed or bool(fired)
        if run.ended:
            del books.runs[event.step_run_id or ""]


def _judge_arcs(books: Books, event: Event) -> None:
    assert books.playbook is not None
    step, payload = books.playbook.steps.get(event.step or ""), event.payload
    router = step.next if step is not None else None
    if router is None:
        books.blame("I-12", f"{event.step} is routed", "a step with arcs")
        return
    arcs = [arc.step for arc in router.arcs]
    if (router.mode, arcs) != (payload["mode"], [a["step"] for a in payload["arcs"]]):
        books.blame("I-12", "other arcs than those of the playbook", f"{arcs}")


# -- step runs -------------------------------------------------------------------


def _scheduled(books: Books, event: Event) -> None:
    payload, run_id = event.payload, event.step_run_id or ""
    _judge_gate(books, event, allow=True)
    _take(books, event, payload["tokens"])
    refuse_late(books, event)
    books.run_count += 1
    name = f"{books.execution_id}-{books.run_count}"
    if run_id != name:
        books.blame("I-15", f"step run {run_id} is scheduled", f"step run {name}")
    deadline = payload.get("deadline")
    books.runs[run_id] = OpenRun(event.step or "", payload["has_arcs"], deadline)
    if "first" in payload:
        open_pipe(books, run_id, payload)


def open_pipe(books: Books, command_id: str, payload: Mapping[str, JSON]) -> None:
    """Enter a pipeline; its first task is visited for the first time."""
    first = payload["first"]
    books.pipes[command_id] = Pipe(first, visits={first: 1})


def refuse_late(books: Books, event: Event) -> None:
    """I-32, I-33: nothing begins after a cancellation or during a pause."""
    if books.cancelled:
        message = f"{event.entity_id} is begun after the execution was cancelled"
        books.blame("I-32", message, "nothing new")
    if books.paused or books.queued:
        why = "paused" if books.paused else "queued"
        message = f"{event.entity_id} is begun while the execution is {why}"
        books.blame("I-33", message, "nothing new before it continues")


def _step_started(books: Books, event: Event) -> None:
    if event.step_run_id not in books.runs:
        books.blame("I-15", f"{event.step_run_id} starts", "an open step run")


def _step_ended(books: Books, event: Event) -> None:
    """I-15: a step run ends once, after everything in it."""
    run_id = event.entity_id
    run = books.runs.get(run_id)
    if run is None or run.ended:
        message = f"step run {run_id} ends twice, or was never begun"
        books.blame("I-15", message, "an open step run")
        return
    if run.boundary is not None:
        message = f"{run.boundary} of {run_id} is not routed"
        books.blame("I-12", message, "next.evaluated before the end of the step")
    _judge_inside(books, run_id)
    _judge_deadline(books, event, run)
    run.ended, run.boundary = True, None if run.routed else event.name
    if run.routed or not run.has_arcs or books.cancelled:
        del books.runs[run_id]


def _judge_inside(books: Books, run_id: str) -> None:
    prefix = f"{run_id}/"
    if books.loops.pop(run_id, None) is None:
        return
    left = [name for name in books.iterations if name.startswith(prefix)]
    for name in sorted(left)[:10]:
        books.blame("I-22", f"{run_id} ends while {name} is open", "its end first")
    for name in left:
        books.iterations.discard(name)
        books.pipes.pop(name, None)
        books.loops.pop(name, None)


def _judge_deadline(books: Books, event: Event, run: OpenRun) -> None:
    """I-28, I-34: a deadline fires at its time, and not before."""
    if event.name != "step.failed" or event.source != "server" or run.deadline is None:
        return
    error = event.payload["error"]
    inside = error.get("task") or error.get("iteration") is not None
    if error["kind"] == "timeout" and not inside and event.timestamp < run.deadline:
        message = f"the deadline of {event.entity_id} fires at {event.timestamp}"
        books.blame("I-28", message, f"at {run.deadline} or later")


def _loop_done(books: Books, event: Event) -> None:
    if event.iteration_id is None:
        run = books.runs.get(event.step_run_id or "")
        if run is not None:
            run.boundary = "loop.done" if run.has_arcs else None


def note_undone(books: Books, event: Event) -> None:
    """Count the ids that an event without effect took."""
    if event.name == "next.evaluated":
        books.token_count += len(event.payload["fired"])
    elif event.name == "step.scheduled":
        books.run_count = number_of(event.step_run_id or "")


def _forked(books: Books, event: Event) -> None:
    """Put tokens back, in logs of earlier versions; take on a newer playbook."""
    for token in event.payload.get("again", ()):
        failed = token["failed"]
        if books.undone is not None and books.undone.has_run(failed):
            books.token_count += 1
        else:
            _make(books, [token])
    steps = event.payload.get("steps", {})
    for name, run in books.runs.items():
        run.has_arcs = steps.get(run.step, {"has_arcs": run.has_arcs})["has_arcs"]
        run.deadline = event.payload["deadlines"].get(name)


def _cleared(books: Books, event: Event) -> None:
    books.tokens.clear()
    books.joined.clear()


CHECKS: dict[str, Check] = {
    "workflow.started": _started,
    "workflow.forked": _forked,
    "workflow.cancelled": _cleared,
    "token.joined": _joined,
    "step.scheduled": _scheduled,
    "step.skipped": _skipped,
    "step.started": _step_started,
    "step.done": _step_ended,
    "step.failed": _step_ended,
    "loop.done": _loop_done,
    "next.evaluated": _evaluated,
}
