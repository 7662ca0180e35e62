"""What a trigger says: which playbook, with what inputs, started by what."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noetl.engine.concurrency import Limit, OnLimit
from noetl.types import JSON

Kind = Literal["webhook", "schedule", "finished"]
CatchUp = Literal["none", "last", "all"]
Ending = Literal["completed", "failed", "cancelled"]
Proof = Literal["token", "signature"]

MOST = 1_000
"""Slots that one outage may bring, whatever a schedule asks for."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}(?!\n)$")]
Header = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}(?!\n)$")]
Expression = Annotated[str, Meta(min_length=1, max_length=4_096)]
Text = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+(?!\n)$")
]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member that is not known is refused: it was meant to do something."""


class Places(Part, frozen=True):
    """At most ``limit`` executions whose ``key``, a template, is the same."""

    key: Expression
    limit: Limit = 1
    on_limit: OnLimit = "queue"


class Webhook(Part, frozen=True):
    """``verify`` says how a sender proves itself, ``header`` by which header.

    ``key`` is a template: deliveries with the same key are the same one. ``rate`` is
    how many of them a server takes in a time: ``10/m``.
    """

    verify: Proof = "token"
    header: Header | None = None
    key: Expression | None = None
    rate: str | None = None


class Schedule(Part, frozen=True):
    """Slots of a cron line in a zone.

    ``catch_up`` says which slots of an outage are run, ``most`` how many of them at
    most. Without ``overlap`` the next one waits for the end of the one before.
    ``jitter`` is a duration within which each slot has its own delay.
    """

    cron: Annotated[str, Meta(max_length=200)]
    zone: Text = "UTC"
    catch_up: CatchUp = "last"
    most: Annotated[int, Meta(ge=1, le=MOST)] = 100
    overlap: bool = True
    jitter: str | int | float = 0


class Finished(Part, frozen=True):
    """The end of an execution of ``path``, one playbook or ``sales/*``."""

    path: Text
    status: Annotated[list[Ending], Meta(min_length=1, max_length=3)] = msgspec.field(
        default_factory=lambda: ["completed"]
    )


class Definition(Part, frozen=True):
    """``playbook`` is a path, or ``path@version``; ``workload`` may hold templates.

    One of ``webhook``, ``schedule`` and ``finished`` says what starts it.
    ``concurrency`` says how many of its executions may be under way.
    """

    name: Name
    playbook: Text
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    webhook: Webhook | None = None
    schedule: Schedule | None = None
    finished: Finished | None = None
    concurrency: Places | None = None

    @property
    def kind(self) -> Kind:
        if self.webhook is not None:
            return "webhook"
        return "schedule" if self.schedule is not None else "finished"

    @property
    def path(self) -> str:
        return self.playbook.partition("@")[0]

    @property
    def version(self) -> str | None:
        return self.playbook.partition("@")[2] or None
