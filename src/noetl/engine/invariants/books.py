"""The books that an audit keeps of a log: its open items, and the breaches found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.undone import Undone
from noetl.types import JSON


class Breach(msgspec.Struct, frozen=True):
    """An invariant that does not hold: the event where it was found, what was found
    (``message``) and what was ``expected``."""

    invariant: str
    seq: int
    message: str
    expected: str = ""


class Pipe(msgspec.Struct):
    """An open pipeline: the task that comes next, and its attempt.

    ``doubts`` counts the starts of an attempt after the first one. ``wait`` is the kind
    of its present wait, ``until`` the time that ends it.
    """

    label: str | None
    attempt: int = 1
    visits: dict[str, int] = msgspec.field(default_factory=dict)
    started: bool = False
    doubts: int = 0
    tasks: int = 0
    result: JSON = None
    wait: str | None = None
    until: str | None = None
    answered: bool = False


class OpenLoop(msgspec.Struct):
    """An open loop: its iterations so far, and what ``loop.done`` must add up to.

    ``results`` is None once they are too large for one event; ``exact`` says that
    ``size`` is their size as recorded. ``kept`` are ranges of iterations that an
    earlier run has done, the last one first. ``most`` is the number of iterations that
    may be open at a time; None if neither the log nor the playbook says it.
    """

    total: int
    sequential: bool
    most: int | None
    items: JSON
    first_seq: int
    next: int = 0
    open: int = 0
    done: int = 0
    failed: int = 0
    size: int = 0
    exact: bool = True
    results: dict[int, JSON] | None = msgspec.field(default_factory=dict)
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    errors: list[tuple[int, str]] = msgspec.field(default_factory=list)
    kept: list[tuple[int, int]] = msgspec.field(default_factory=list)
    ended: bool = False


class OpenRun(msgspec.Struct):
    """An open step run. ``boundary`` is the end that is to be routed, ``routed`` says
    that an earlier one has fired arcs. ``writers`` are the iterations that wrote a key
    of ctx, with digests of the value."""

    step: str
    has_arcs: bool
    deadline: str | None = None
    ended: bool = False
    boundary: str | None = None
    routed: bool = False
    loop_result: JSON = None
    writers: dict[str, tuple[str, frozenset[str]]] = msgspec.field(default_factory=dict)


class Books(msgspec.Struct):
    """The open items of an execution; their number does not grow with its log.

    ``tokens`` maps pending tokens to their steps, ``joined`` are those that wait at a
    join. ``pipes``, ``loops`` and ``iterations`` are by the ids of their entities.
    ``playbook`` is None where it is not known: then what it says is not checked.
    """

    seq: int = 0
    last: str = ""
    execution_id: str = ""
    playbook: Playbook | None = None
    undone: Undone | None = None
    token_count: int = 0
    run_count: int = 0
    tokens: dict[str, str] = msgspec.field(default_factory=dict)
    joined: set[str] = msgspec.field(default_factory=set)
    runs: dict[str, OpenRun] = msgspec.field(default_factory=dict)
    pipes: dict[str, Pipe] = msgspec.field(default_factory=dict)
    loops: dict[str, OpenLoop] = msgspec.field(default_factory=dict)
    iterations: set[str] = msgspec.field(default_factory=set)
    messages: set[int] = msgspec.field(default_factory=set)
    begun: bool = False
    refused: bool = False
    paused: bool = False
    queued: bool = False
    cancelled: bool = False
    deadline: str | None = None
    status: str | None = None
    found: list[Breach] = msgspec.field(default_factory=list)

    def blame(self, invariant: str, message: str, expected: str = "") -> None:
        """Note a breach of the event that is looked at."""
        self.found.append(Breach(invariant, self.seq, message, expected))


Check = Callable[[Books, Event], None]
"""Checks one event against the books, and enters it."""


def command_of(event: Event) -> str:
    """Return the id of the pipeline that an event belongs to."""
    return event.iteration_id or event.step_run_id or ""


def parent_of(iteration_id: str) -> str:
    """Return the loop of an iteration: the run, or the iteration around it."""
    return iteration_id.rpartition("/")[0]
