"""Invariants of tasks: attempts, outcomes, waits, patches, and values in payloads."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from noetl.engine.events import Event
from noetl.engine.invariants.books import Books, Check, OpenRun, Pipe, command_of
from noetl.engine.runs import path_of
from noetl.engine.times import seconds_of
from noetl.engine.values.references import (
    PAYLOAD_LIMIT,
    is_reference,
    is_same,
    made_by,
    places_in,
)
from noetl.types import JSON

CLOCKS_S = 2.0
"""Seconds by which the clocks of two servers may differ."""
MAX_WRITERS = 10_000
"""Keys of ctx, for each step run, whose writers are remembered."""
_TIMED = frozenset({"delay", "limit", "timer"})
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


def _pipe_of(books: Books, event: Event) -> Pipe | None:
    """Return the pipeline of the event, whose next task and attempt it must name."""
    pipe = books.pipes.get(command_of(event))
    if pipe is None:
        message = f"{event.name} of {command_of(event)}"
        books.blame("I-17", message, "a pipeline that has begun and not ended")
        return None
    label, attempt = event.task_label, event.attempt
    if (label, attempt) != (pipe.label, pipe.attempt):
        message = f"{event.name} of attempt {attempt} of '{label}'"
        expected = f"attempt {pipe.attempt} of '{pipe.label}'"
        if pipe.label is None:
            expected = "the end of the pipeline"
        books.blame("I-27", message, expected)
    else:
        visit = f"{command_of(event)}:{label}.{pipe.visits.get(label or '', 1)}"
        if event.task_run_id != visit:
            message = f"{event.name} of the task run {event.task_run_id}"
            books.blame("I-27", message, visit)
    return pipe


def _started(books: Books, event: Event) -> None:
    if books.cancelled:
        message = f"{event.task_run_id} is begun after the execution was cancelled"
        books.blame("I-32", message, "nothing new")
    pipe = _pipe_of(books, event)
    if pipe is None:
        return
    doubts = pipe.doubts + 1 if pipe.started else None
    found = event.payload.get("in_doubt")
    if found != doubts:
        again = f"in_doubt: {doubts}" if doubts else "the first start of this attempt"
        books.blame("I-27", f"in_doubt is {found}", again)
    if pipe.wait in _TIMED and pipe.until is not None:
        early = seconds_of(pipe.until) - seconds_of(event.timestamp)
        if early > CLOCKS_S:
            message = f"{event.task_run_id} continues at {event.timestamp}"
            books.blame("I-28", message, f"at {pipe.until} or later")
    pipe.doubts, pipe.started, pipe.wait = doubts or 0, True, None


def _done(books: Books, event: Event) -> None:
    """I-26: one outcome for an attempt that was started."""
    pipe, payload = _pipe_of(books, event), event.payload
    if pipe is None:
        return
    if not pipe.started:
        message = f"attempt {event.attempt} of {event.task_run_id} ended, and never"
        books.blame("I-17", f"{message} began", "its task.started before")
    directive, outcome = payload["directive"], payload["outcome"]
    do = directive["do"]
    failed = outcome["status"] == "error"
    status = "skipped" if do == "skip" else "error" if failed else "success"
    if event.status != status:
        books.blame(
            "I-26", f"the status is {event.status}", f"{status}, by its outcome"
        )
    _judge_directive(books, event)
    _judge_patch(books, event)
    pipe.tasks += 1
    if do != "skip":
        pipe.result = outcome["result"]
    pipe.started, pipe.doubts, pipe.wait, pipe.answered = False, 0, None, False
    if do == "retry":
        pipe.attempt += 1
        return
    following = directive.get("next")
    pipe.label, pipe.attempt = following, 1
    if following is not None:
        pipe.visits[following] = pipe.visits.get(following, 0) + 1


def _judge_directive(books: Books, event: Event) -> None:
    """I-29: a directive leads to a task of the same step, within the limit."""
    directive = event.payload["directive"]
    do, following = directive["do"], directive.get("next")
    if do == "jump" and following != directive.get("to"):
        books.blame("I-29", f"a jump to {directive.get('to')} goes to {following}")
    if do in ("fail", "break") and following is not None:
        books.blame("I-26", f"{do} goes on with '{following}'", "the end")
    if do == "retry" and not directive.get("delay", 0) >= 0:
        books.blame("I-28", f"a delay of {directive.get('delay')}", "0 or more")
    if books.playbook is None:
        return
    step = books.playbook.steps.get(event.step or "")
    labels = [task.label for task in step.tasks] if step is not None else []
    if following is not None and following not in labels:
        message = f"the pipeline goes on with '{following}'"
        books.blame("I-29", message, f"a task of '{event.step}'")
    pipe = books.pipes[command_of(event)]
    if pipe.tasks > books.playbook.limits.task_runs:
        message = f"the pipeline has run {pipe.tasks + 1} tasks"
        books.blame("I-29", message, f"at most {books.playbook.limits.task_runs} and 1")


# -- ctx -------------------------------------------------------------------------


def _judge_patch(books: Books, event: Event) -> None:
    """I-30: in a parallel loop, one iteration writes a key of ctx."""
    patch, run = event.payload.get("set_ctx"), books.runs.get(event.step_run_id or "")
    if not patch or run is None or event.iteration_id is None or is_reference(patch):
        return
    refused = event.payload.get("refused")
    if refused is not None:
        if event.payload["directive"]["do"] != "fail":
            books.blame("I-30", f"ctx.{refused['key']} is refused", "a failure")
        return
    for key, value in patch.items():
        _write(books, event, run, key, value)


def _write(books: Books, event: Event, run: OpenRun, key: str, value: JSON) -> None:
    name, digests = event.iteration_id or "", _digests(value)
    known = run.writers.get(key)
    if known is not None:
        writer, before = known
        if digests.isdisjoint(before) and _are_rivals(books, writer, name):
            message = f"ctx.{key} is written by {name} and by {writer}"
            books.blame("I-30", message, "one writer in a parallel loop, or one value")
    if known is not None or len(run.writers) < MAX_WRITERS:
        run.writers[key] = (name, digests)


def _digests(value: JSON) -> frozenset[str]:
    if is_reference(value):
        return frozenset({str(value["key"])})
    forms = (_encode(value), _sorted(value))
    return frozenset(sha256(form).hexdigest() for form in forms)


def _are_rivals(books: Books, one: str, other: str) -> bool:
    """Return whether the loop in which two iterations differ is parallel."""
    loop = one.partition("/")[0]
    for mine, other_index in zip(path_of(one), path_of(other), strict=False):
        if mine != other_index:
            found = books.loops.get(loop)
            return found is not None and not found.sequential
        loop = f"{loop}/{mine}"
    return False


# -- waits -----------------------------------------------------------------------


def _suspended(books: Books, event: Event) -> None:
    pipe = _pipe_of(books, event)
    if pipe is not None:
        pipe.wait, pipe.until = event.payload["on"], event.payload["until"]
        pipe.answered = False


def _resumed(books: Books, event: Event) -> None:
    """I-49: a pipeline that waits gets one answer, and a signal is taken once."""
    pipe, message = _pipe_of(books, event), event.payload.get("message")
    if pipe is None:
        return
    if pipe.wait not in ("signal", "playbook", "event") or pipe.answered:
        found = f"{command_of(event)} gets an answer"
        books.blame("I-49", found, "a pipeline that waits for one")
    pipe.answered = True
    if message is not None:
        if message not in books.messages:
            found = f"the signal of event {message} is taken twice, or never came"
            books.blame("I-49", found, "a signal that no pipeline has taken")
        books.messages.discard(message)


def _received(books: Books, event: Event) -> None:
    books.messages.add(event.seq)


def _step_ended(books: Books, event: Event) -> None:
    """I-26: the result of a step is that of its last task, or of its loop."""
    pipe, run = books.pipes.pop(event.entity_id, None), None
    if pipe is None:
        run = books.runs.get(event.entity_id)
    _judge_result(books, event, pipe, run)


def _iteration_ended(books: Books, event: Event) -> None:
    _judge_result(books, event, books.pipes.pop(event.entity_id, None), None)


def _judge_result(
    books: Books, event: Event, pipe: Pipe | None, run: OpenRun | None
) -> None:
    if pipe is None and (run is None or run.loop_result is None):
        return
    told = event.payload.get("result")
    if event.name in ("step.failed", "loop.iteration.failed"):
        return
    if pipe is not None and pipe.label is not None:
        message = f"{event.entity_id} succeeds before its task '{pipe.label}'"
        books.blame("I-26", message, "the outcome of its last task first")
        return
    known = pipe.result if pipe is not None else run and run.loop_result
    if told != known and not is_same(told, known):
        message = f"the result of {event.entity_id} is another one"
        books.blame("I-26", message, "that of its last task, or of its loop")


def _forked(books: Books, event: Event) -> None:
    """Begin the open attempts again; an answered wait keeps its answer."""
    steps = event.payload.get("steps", {})
    for name, pipe in books.pipes.items():
        if pipe.answered:
            continue
        pipe.started, pipe.doubts, pipe.wait = False, 0, None
        run = books.runs.get(name.partition("/")[0])
        first = steps.get(run.step, {"first": None})["first"] if run else None
        if first is not None and not pipe.tasks:
            pipe.label, pipe.visits = first, {first: 1}


# -- values ----------------------------------------------------------------------


def check_values(books: Books, event: Event) -> None:
    """I-35: a payload has a bounded size; what was stored elsewhere is referred to."""
    payload = event.payload
    size = len(_encode(payload))
    if size > PAYLOAD_LIMIT:
        message = f"a payload of {size:,} bytes"
        books.blame("I-35", message, f"at most {PAYLOAD_LIMIT:,}")
    if "spilled" not in payload:
        return
    places = dict(places_in(payload))
    for path in payload["spilled"]:
        reference = places.get(path)
        if reference is None:
            if not any(path.startswith(f"{outer}.") for outer in places):
                books.blame("I-35", f"{path} holds no reference", "a stored value")
        elif reference.get("checksum") != f"sha256:{reference['key']}":
            message = f"the reference at {path} has {reference.get('checksum')}"
            books.blame("I-35", message, f"sha256:{reference['key']}")


def stored_values(event: Event) -> Iterator[tuple[str, int | None]]:
    """Yield key and size of the values that were stored for an event; the size is None
    where only the value around it tells it."""
    if "spilled" not in event.payload:
        return
    sizes = {each["key"]: each["size"] for _, each in places_in(event.payload)}
    for key in made_by(event.payload):
        yield key, sizes.get(key)


CHECKS: dict[str, Check] = {
    "task.started": _started,
    "task.done": _done,
    "task.suspended": _suspended,
    "task.resumed": _resumed,
    "message.received": _received,
    "step.done": _step_ended,
    "step.failed": _step_ended,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
    "workflow.forked": _forked,
}
