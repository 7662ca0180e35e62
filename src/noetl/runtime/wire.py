"""What servers and workers say to each other: the bodies of their calls, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from noetl.engine.pipeline import Frame
from noetl.engine.progress import Progress
from noetl.engine.reports import Fact
from noetl.ports import Blob, Name
from noetl.types import JSON

Slots = Annotated[int, msgspec.Meta(ge=1, le=1024)]

Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
"""What a stored value is known by: the SHA-256 of its bytes."""

LARGEST = 64 * 1024**3
"""Bytes of a value that a worker may send."""

PROTOCOL = 2
"""The version of these messages: a server refuses workers of another one."""

MOST_REPORTS = 500
LONGEST_WAIT = 30.0


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not known is refused: the other side is of another version."""


class LeaseKey(Message, frozen=True):
    """A lease, as a worker names it: the server finds everything else in its store.

    ``epoch`` grows with every claim of the command.
    """

    command_id: Name
    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Asked(Message, frozen=True):
    """A question under one lease. ``worker`` is the name that it was claimed by; the
    account that it belongs to is the request's."""

    worker: Name
    lease: LeaseKey


class Claim(Message, frozen=True):
    """Give ``worker`` up to so many pipelines; if there are none, wait some seconds.

    ``again``: an answer was lost, and with it perhaps pipelines; it has those that it
    ``holds``, and no others. ``protocol`` is the version that the worker speaks; one
    that does not say is of version 1.
    """

    worker: Name
    pool: Name
    slots: Slots
    wait: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    again: bool = False
    holds: Annotated[Sequence[Name], msgspec.Meta(max_length=4096)] = ()
    protocol: int = 1


class Order(Message, frozen=True):
    """A pipeline to go on with. ``source`` is where its playbook is stored; ``secrets``
    are those that its tasks name, sealed for this worker alone."""

    lease: LeaseKey
    source: str
    extensions: Sequence[str]
    frame: Frame
    progress: Progress
    secrets: str | None = None
    folder: str | None = None
    begun: bool = False


class Orders(Message, frozen=True):
    """``ttl`` is how many seconds a lease lasts without a beat. If the server
    ``has_accounts``, workers isolate code of playbooks from now on; the same holds for
    the other answers that say so."""

    orders: Sequence[Order]
    ttl: float
    has_accounts: bool = True


class Report(Message, frozen=True):
    """``number`` counts the reports of a lease from 1; one whose answer was lost is
    sent ``again``, and is recorded once. ``receipts`` are those of the values that its
    facts name, by their keys."""

    lease: LeaseKey
    number: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    facts: Sequence[Fact]
    wants: bool = False
    again: bool = False
    receipts: dict[str, str] = {}


class Reports(Message, frozen=True):
    worker: Name
    pool: Name
    reports: Sequence[Report]


class Reply(Message, frozen=True):
    """``stop``: leave the pipeline; ``order``: go on with this one. ``spilled``: values
    of ``ctx`` may be stored elsewhere. ``error`` is the kind and message of a refusal.
    """

    stop: bool = False
    ctx: dict[str, JSON] | None = None
    order: Order | None = None
    spilled: bool = False
    duplicate: bool = False
    error: tuple[str, str] | None = None


class Replies(Message, frozen=True):
    replies: Sequence[Reply]
    has_accounts: bool = True


class Beat(Message, frozen=True):
    """I live, and hold these; or, ``leaving``, I do so no longer."""

    worker: Name
    pool: Name
    slots: Slots
    leases: Sequence[LeaseKey]
    leaving: bool = False


class Pulse(Message, frozen=True):
    """Of these commands stop the tools: the lease is lost, or it is cancelled."""

    lost: Sequence[str] = ()
    cancelled: Sequence[str] = ()
    has_accounts: bool = True


class Source(Asked, frozen=True):
    """The text of the playbook, please."""


class Value(Asked, frozen=True):
    """What does this reference stand for?"""

    reference: JSON


class Upload(Asked, frozen=True):
    """Keep this value: so many bytes with this hash."""

    key: Key
    size: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Kept(Blob, frozen=True):
    """It is stored. The ``receipt`` goes with the report that names it; there is none
    where workers reach the store by themselves."""

    receipt: str | None = None


class Result(Asked, frozen=True):
    """The bytes of a stored value, please; or only whether they may be read."""

    key: Key
    only_look: bool = False


class Fetch(Asked, frozen=True):
    """Look up the secret that a ``secrets`` task of the leased step names; it is
    sealed, and its handle is the answer.

    What the playbook says literally is taken from there. ``name`` is what a template
    of the task gave.
    """

    task: str
    name: str | None = None


class Fetched(Message, frozen=True):
    handle: dict[str, JSON]
    secret: str


class Authorize(Asked, frozen=True):
    """A token for a task of the leased step that has ``auth: {type: oauth2}``.

    ``auth`` is what its templates gave, sealed; what the playbook says literally is
    taken from there. A ``fresh`` token is not one that was given before.
    """

    task: str
    auth: str
    fresh: bool = False


class Authorized(Message, frozen=True):
    auth: str
