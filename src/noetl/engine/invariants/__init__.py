"""Invariants of any log: checked event by event, with memory of open items only.

==========  ================================================================
``books``   the open items that an audit keeps
``tokens``  tokens, routing, step runs
``loops``   loops and their iterations
``tasks``   attempts, outcomes, waits, patches of ``ctx``, stored values
==========  ================================================================

``catalog`` lists all invariants, and how each is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.dsl.model import Playbook
from noetl.engine.events import EVENTS, Event
from noetl.engine.invariants import loops, tasks, tokens
from noetl.engine.invariants.books import Books, Breach, Check
from noetl.engine.undone import Undone

__all__ = ["Audit", "Breach", "audit"]

LAST = "playbook.processed"


class Audit:
    """A check of one execution's events, in order: ``take`` each, then call ``end``.

    With its ``playbook``, what that says of loops, arcs and limits is checked, too.
    After an event that cannot be understood nothing more is checked but its position.
    """

    def __init__(self, playbook: Playbook | None = None) -> None:
        self._books = Books(playbook=playbook)
        self._is_lost = False

    @property
    def is_lost(self) -> bool:
        """Whether an event could not be understood."""
        return self._is_lost

    def use(self, playbook: Playbook | None) -> None:
        """Check the events that follow against this playbook."""
        self._books.playbook = playbook

    def take(self, event: Event) -> Sequence[Breach]:
        """Return the breaches of this event, given those before it."""
        books = self._books
        expected, books.seq = books.seq + 1, event.seq
        if event.seq != expected:
            books.found.append(_gap(expected, event.seq))
        if not self._is_lost:
            try:
                self._judge(event)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as why:
                self._is_lost = True
                message = f"{event.name} cannot be understood: {_words(why)}"
                books.blame("I-07", message, "the members that its kind records")
        books.last = event.name
        if not books.found:
            return ()
        found, books.found = books.found, []
        return found

    def end(self) -> Sequence[Breach]:
        """Return the breaches of a log that ends here; only a finished log must be
        complete."""
        books = self._books
        if books.last != LAST or self._is_lost:
            return ()
        left = [*sorted(books.tokens), *sorted(books.runs), *sorted(books.iterations)]
        for name in left[:10]:
            message = f"the execution has finished, but {name} has not"
            books.blame("I-14", message, "everything has ended")
        found, books.found = books.found, []
        return found

    def _judge(self, event: Event) -> None:
        books = self._books
        if event.seq == 1:
            books.execution_id = event.execution_id
            books.undone = Undone.of(event)
        _judge_envelope(books, event)
        if books.undone is not None and books.undone.covers(event):
            tokens.note_undone(books, event)
            return
        for check in _CHECKS.get(event.name, ()):
            check(books, event)
        tasks.check_values(books, event)


def _gap(expected: int, found: int) -> Breach:
    message = f"expected event {expected}, found {found}"
    return Breach("I-04", found, message, f"event {expected}")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _judge_envelope(books: Books, event: Event) -> None:
    """I-04, I-13, I-14: the event is of this log, of a known kind, from its side."""
    if event.execution_id != books.execution_id or event.event_id != (
        f"{books.execution_id}.{event.seq}"
    ):
        message = f"the event is {event.event_id} of {event.execution_id}"
        books.blame("I-04", message, f"{books.execution_id}.{event.seq}")
    if books.last == LAST:
        books.blame("I-14", f"{event.name} comes after the last event", "nothing")
    kind = EVENTS.get(event.name)
    if kind is None:
        books.blame("I-13", f"an event {event.name}", "an event that NoETL records")
        return
    if event.source != kind.source and event.source not in kind.sources:
        books.blame("I-13", f"{event.name} by the {event.source}", f"by {kind.source}")
    if event.status != kind.status and event.status not in kind.statuses:
        message = f"{event.name} with status {event.status}"
        books.blame("I-26", message, " or ".join(kind.statuses or (kind.status,)))


# -- the execution ---------------------------------------------------------------


def _requested(books: Books, event: Event) -> None:
    if event.seq != 1:
        books.blame("I-01", "the request is not the first event", "event 1")


def _evaluated(books: Books, event: Event) -> None:
    books.refused = "error" in event.payload


def _queued(books: Books, event: Event) -> None:
    books.queued = True


def _admitted(books: Books, event: Event) -> None:
    if not books.queued:
        books.blame("I-33", "an execution is admitted that did not wait", "queued")
    books.queued, books.deadline = False, event.payload["deadline"]


def _cancelled(books: Books, event: Event) -> None:
    """I-28, I-34: a deadline fires once, and not before its time."""
    if books.cancelled:
        books.blame("I-34", "the execution is cancelled twice", "once")
    deadline = books.deadline
    if event.payload["kind"] == "timeout" and (
        deadline is None or event.timestamp < deadline
    ):
        message = f"the deadline fires at {event.timestamp}"
        books.blame("I-28", message, f"at {deadline} or later")
    books.cancelled, books.paused, books.queued = True, False, False


def _paused(books: Books, event: Event) -> None:
    if books.paused or books.cancelled:
        books.blame("I-33", "the execution is paused", "an execution that runs")
    books.paused = True


def _resumed(books: Books, event: Event) -> None:
    if not books.paused:
        books.blame("I-33", "the execution is resumed", "a paused execution")
    books.paused = False
    for name, moment in event.payload["deadlines"].items():
        if name in books.runs:
            books.runs[name].deadline = moment
        else:
            books.deadline = moment


def _forked(books: Books, event: Event) -> None:
    books.paused = books.queued = False
    books.deadline = event.payload["deadline"]
    loops.note_fork(books)


def _finished(books: Books, event: Event) -> None:
    """I-14: the end comes when nothing is left to do."""
    status = event.payload["status"]
    if books.status is not None:
        books.blame("I-14", "the execution finishes twice", "one workflow.finished")
    if books.paused:
        books.blame("I-33", "the execution finishes while paused", "not before")
    if status == "cancelled" and not books.cancelled:
        books.blame("I-14", "status cancelled", "a cancellation before")
    if status == "completed" and books.cancelled:
        books.blame("I-32", "status completed after a cancellation", "cancelled")
    books.status = status
    left = [name for name in books.tokens if name not in books.joined]
    for name in [*sorted(left), *sorted(books.runs)][:10]:
        message = f"the execution finishes, and {name} does not"
        books.blame("I-14", message, "everything has ended")
    books.tokens.clear()
    books.joined.clear()
    books.runs.clear()
    books.iterations.clear()
    books.pipes.clear()


def _processed(books: Books, event: Event) -> None:
    expected = "failed" if books.refused else books.status
    if books.last != "workflow.finished" and not books.refused:
        message = f"playbook.processed comes after {books.last}"
        books.blame("I-14", message, "after workflow.finished")
    elif event.payload["status"] != expected:
        books.blame("I-14", f"status {event.payload['status']}", f"{expected}")


CHECKS: dict[str, Check] = {
    "playbook.execution.requested": _requested,
    "playbook.request.evaluated": _evaluated,
    "workflow.queued": _queued,
    "workflow.admitted": _admitted,
    "workflow.cancelled": _cancelled,
    "workflow.paused": _paused,
    "workflow.resumed": _resumed,
    "workflow.forked": _forked,
    "workflow.finished": _finished,
    "playbook.processed": _processed,
}

# The end of a task is judged before that of its run, which takes it off the books.
_GROUPS = (tasks.CHECKS, loops.CHECKS, tokens.CHECKS, CHECKS)
_CHECKS: dict[str, tuple[Check, ...]] = {
    name: tuple(group[name] for group in _GROUPS if name in group) for name in EVENTS
}


def audit(events: Sequence[Event], playbook: Playbook | None = None) -> list[Breach]:
    """Return all breaches of a whole log."""
    watch = Audit(playbook)
    found = [breach for event in events for breach in watch.take(event)]
    return [*found, *watch.end()]
