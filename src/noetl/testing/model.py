"""A test file as it is run: cases, what their tasks answer, what they expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.dsl.model import Located
from noetl.dsl.place import Place
from noetl.templates import Template, Value
from noetl.types import JSON

How = Literal["result", "error", "http", "dies", "real"]


class Scripted(Located, frozen=True):
    """What a call comes to. ``body`` is rendered with the call's own names.

    ``delay`` is in seconds, or yields a duration.
    """

    how: How
    body: Value
    helper: Value
    delay: float | Value = 0.0


class Reply(Located, frozen=True):
    """Outcomes, one after the other, for the calls that it is meant for."""

    outcomes: tuple[Scripted, ...]
    call: tuple[int, ...] | None = None
    attempt: tuple[int, ...] | None = None
    visit: tuple[int, ...] | None = None
    iteration: tuple[int, ...] | None = None
    when: Template | None = None

    @property
    def selective(self) -> bool:
        """Whether some calls are none of its business; a death happens once."""
        chosen = (self.call, self.attempt, self.visit, self.iteration, self.when)
        return self.outcomes[-1].how == "dies" or any(
            each is not None for each in chosen
        )


class Answers(msgspec.Struct, frozen=True):
    """The replies of one playbook's tasks, by the name that stands in the file.

    ``places`` are those names; a case has them of the file, too.
    """

    replies: Mapping[str, tuple[Reply, ...]]
    places: Mapping[str, tuple[Place, ...]]


class Signal(Located, frozen=True):
    """``after`` is seconds from the start; None: when it is waited for."""

    name: str
    data: JSON
    after: float | None
    refused: bool = False


class Case(Located, frozen=True):
    """One test. ``answers`` are its own and, behind them, those of the file.

    ``expect`` are the expectations by name, where they stand; ``children`` are the
    answers of child playbooks, by their paths; all share one ``keychain``.
    """

    name: str
    workload: dict[str, JSON]
    keychain: dict[str, JSON]
    answers: Answers
    children: Mapping[str, Answers]
    signals: tuple[Signal, ...]
    schedules: int
    starts_at: float
    expect: Mapping[str, Place]


class Suite(msgspec.Struct, frozen=True):
    """A test file. ``playbook`` is None where the file's own name says it."""

    playbook: Place | None
    cases: tuple[Case, ...]
