"""Test file: cases, scripted replies, expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.dsl.model import Located
from noetl.dsl.node import Location
from noetl.templates import Template, Value
from noetl.types import JSON

How = Literal["result", "error", "http", "dies", "real"]


class Scripted(Located, frozen=True):
    """Scripted outcome of a call. ``body`` is rendered with the call's own names.

    ``delay`` is in seconds, or yields a duration.
    """

    how: How
    body: Value
    helper: Value
    delay: float | Value = 0.0


class Reply(Located, frozen=True):
    """Outcomes, one after the other, for the calls that match."""

    outcomes: tuple[Scripted, ...]
    call: tuple[int, ...] | None = None
    attempt: tuple[int, ...] | None = None
    visit: tuple[int, ...] | None = None
    iteration: tuple[int, ...] | None = None
    when: Template | None = None

    @property
    def selective(self) -> bool:
        """True if the reply applies to some calls only; a death happens once."""
        chosen = (self.call, self.attempt, self.visit, self.iteration, self.when)
        return self.outcomes[-1].how == "dies" or any(
            each is not None for each in chosen
        )


class Answers(msgspec.Struct, frozen=True):
    """Replies of one playbook's tasks, by their names in the file.

    ``places`` are the locations of those names; a case includes those of the file.
    """

    replies: Mapping[str, tuple[Reply, ...]]
    places: Mapping[str, tuple[Location, ...]]


class Signal(Located, frozen=True):
    """Signal; ``after`` is in seconds from the start, None: when it is waited for."""

    name: str
    data: JSON
    after: float | None
    refused: bool = False


class Case(Located, frozen=True):
    """One test. ``answers`` are its own replies, then those of the file.

    ``expect`` are the expectations by name with their locations; ``children`` are the
    replies of child playbooks, by their paths; all share one ``keychain``.
    """

    name: str
    workload: dict[str, JSON]
    keychain: dict[str, JSON]
    answers: Answers
    children: Mapping[str, Answers]
    signals: tuple[Signal, ...]
    schedules: int
    starts_at: float
    expect: Mapping[str, Location]


class Suite(msgspec.Struct, frozen=True):
    """Test file. ``playbook`` is None if the file's own name implies it."""

    playbook: Location | None
    cases: tuple[Case, ...]
