"""What servers and workers say to each other: the bodies of their calls, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from noetl.engine.pipeline import Frame
from noetl.engine.progress import Progress
from noetl.engine.reports import Fact
from noetl.ports import Blob, Lease, Name
from noetl.types import JSON

Slots = Annotated[int, msgspec.Meta(ge=1, le=1024)]

Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
"""What a stored value is known by: the SHA-256 of its bytes."""

LARGEST = 64 * 1024**3
"""Bytes of a value that a worker may send."""

MOST_REPORTS = 500
LONGEST_WAIT = 30.0


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not known is refused: the other side is of another version."""


class Claim(Message, frozen=True):
    """Give ``worker`` up to so many pipelines; if there are none, wait some seconds.

    ``again``: an answer was lost, and with it perhaps pipelines; it has those that it
    ``holds``, and no others.
    """

    worker: Name
    pool: Name
    slots: Slots
    wait: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    again: bool = False
    holds: Annotated[Sequence[Name], msgspec.Meta(max_length=4096)] = ()


class Order(Message, frozen=True):
    """A pipeline to go on with. ``source`` is where its playbook is stored; ``secrets``
    are those that its tasks name, sealed for this worker alone."""

    lease: Lease
    source: str
    extensions: Sequence[str]
    frame: Frame
    progress: Progress
    secrets: str | None = None
    folder: str | None = None
    begun: bool = False


class Orders(Message, frozen=True):
    """``ttl`` is how many seconds a lease lasts without a beat."""

    orders: Sequence[Order]
    ttl: float


class Report(Message, frozen=True):
    """``number`` counts the reports of a lease from 1; one whose answer was lost is
    sent ``again``, and is recorded once. ``receipts`` are those of the values that its
    facts name, by their keys."""

    lease: Lease
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


class Beat(Message, frozen=True):
    """I live, and hold these; or, ``leaving``, I do so no longer."""

    worker: Name
    pool: Name
    slots: Slots
    leases: Sequence[Lease]
    leaving: bool = False


class Pulse(Message, frozen=True):
    """Of these commands stop the tools: the lease is lost, or it is cancelled."""

    lost: Sequence[str] = ()
    cancelled: Sequence[str] = ()


class Source(Message, frozen=True):
    """The text of the playbook, please."""

    lease: Lease


class Value(Message, frozen=True):
    """What does this reference stand for?"""

    lease: Lease
    reference: JSON


class Upload(Message, frozen=True):
    """Keep this value: so many bytes with this hash."""

    lease: Lease
    key: Key
    size: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Kept(Blob, frozen=True):
    """It is stored. The ``receipt`` goes with the report that names it; there is none
    where workers reach the store by themselves."""

    receipt: str | None = None


class Result(Message, frozen=True):
    """The bytes of a stored value, please; or only whether they may be read."""

    lease: Lease
    key: Key
    only_look: bool = False


class Fetch(Message, frozen=True):
    """Look a secret up for a task; it is sealed, and its handle is the answer."""

    lease: Lease
    name: str | None = None
    provider: str | None = None
    path: str | None = None


class Fetched(Message, frozen=True):
    handle: dict[str, JSON]
    secret: str


class Authorize(Message, frozen=True):
    lease: Lease
    auth: str
    fresh: bool = False


class Authorized(Message, frozen=True):
    auth: str
