"""Definition of a trigger: the playbook, its inputs, and the event that starts it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from noetl.dsl.labels import Labels
from noetl.engine.steps.concurrency import Limit, OnLimit
from noetl.types import JSON

Kind = Literal["webhook", "schedule", "finished"]
CatchUp = Literal["none", "last", "all"]
Ending = Literal["completed", "failed", "cancelled"]
Proof = Literal["token", "signature"]

MAX_CATCH_UP = 1_000
"""Maximum of slots that run after one outage."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}(?!\n)$")]
Header = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}(?!\n)$")]
Expression = Annotated[str, Meta(min_length=1, max_length=4_096)]
Text = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+(?!\n)$")
]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part of a definition; unknown members are rejected."""


class Places(Part, frozen=True):
    """Limit of executions that have the same ``key``, a template."""

    key: Expression
    limit: Limit = 1
    on_limit: OnLimit = "queue"


class Webhook(Part, frozen=True):
    """Webhook that starts an execution.

    ``verify`` is the method by which a sender proves itself, ``header`` the header for
    it. ``key`` is a template: deliveries with the same key are duplicates. ``rate``
    limits the deliveries that a server accepts: ``10/m``.
    """

    verify: Proof = "token"
    header: Header | None = None
    key: Expression | None = None
    rate: str | None = None


class Alert(Part, frozen=True):
    """Playbook that is started for slots that are left out, or that start later than
    ``after`` their time. Its ``workload`` may hold templates, which read ``alert``."""

    playbook: Text
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    after: str | int | float = "1m"


class Schedule(Part, frozen=True):
    """Slots of a cron line in a zone.

    ``catch_up`` selects the slots of an outage that run, ``most`` is their maximum.
    Without ``overlap`` the next one waits for the end of the one before. ``jitter`` is
    a duration within which each slot has its own delay.
    """

    cron: Annotated[str, Meta(max_length=200)]
    zone: Text = "UTC"
    catch_up: CatchUp = "last"
    most: Annotated[int, Meta(ge=1, le=MAX_CATCH_UP)] = 100
    overlap: bool = True
    jitter: str | int | float = 0
    alert: Alert | UnsetType = UNSET  # left out where it is not used: see Definition


class Finished(Part, frozen=True):
    """End of an execution of ``path``, one playbook or ``sales/*``."""

    path: Text
    status: Annotated[list[Ending], Meta(min_length=1, max_length=3)] = msgspec.field(
        default_factory=lambda: ["completed"]
    )


class Definition(Part, frozen=True):
    """Trigger. ``playbook`` is a path, or ``path@version``; ``workload`` may hold
    templates. A server of the version before reads stored triggers, unless they use a
    member that it does not know.

    One of ``webhook``, ``schedule`` and ``finished`` is the source of events.
    ``concurrency`` limits its running executions. ``labels`` are those of each, besides
    those of the playbook; their values may be templates.
    """

    name: Name
    playbook: Text
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    webhook: Webhook | None = None
    schedule: Schedule | None = None
    finished: Finished | None = None
    concurrency: Places | None = None
    labels: Labels | None = None

    @property
    def alert(self) -> Alert | None:
        """The alert of a schedule."""
        if self.schedule is None or self.schedule.alert is UNSET:
            return None
        return self.schedule.alert

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
