"""Messages between servers and workers: the bodies of their calls, and their codec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from noetl.engine.reports.accept import Fact
from noetl.engine.runs import Progress
from noetl.engine.state import Frame
from noetl.ports import Blob, CallLimit, Name
from noetl.ports.task_logs import LogText
from noetl.types import JSON

T = TypeVar("T")

Slots = Annotated[int, msgspec.Meta(ge=1, le=1024)]

Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
"""The key of a stored value: the SHA-256 of its bytes."""

MAX_UPLOAD_BYTES = 64 * 1024**3

PROTOCOL = 6
"""The version of these messages. It grows when a worker or server of the version before
would misunderstand them, and not for a new field with a default."""

OLDEST = 5
"""The oldest version whose workers a server serves: during an upgrade workers are older
than servers."""

SAYS_WAITED = 6
"""The first version whose workers know ``waited`` of a claim's answer."""

MAX_REPORTS = 500
MAX_WAIT_SECONDS = 30.0


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A body with unknown fields is refused: its sender is newer."""


class Reply(Message, frozen=True, forbid_unknown_fields=False):
    """A body from a server, which may be newer than the worker and say more."""


class LeaseKey(Message, frozen=True):
    """A lease, as a worker names it: the server finds everything else in its store.

    ``epoch`` grows with every claim of the command.
    """

    command_id: Name
    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class LeaseRequest(Message, frozen=True):
    """A request under one lease. ``worker`` is the name that claimed the lease; the
    account that the worker belongs to is the account of the HTTP request."""

    worker: Name
    lease: LeaseKey


class ClaimRequest(Message, frozen=True):
    """Asks for at most ``slots`` pipelines, and waits for the first of them.

    ``is_retry``: the answer to an earlier claim was lost, and with it perhaps
    pipelines; the worker runs ``held_commands`` and no others. ``protocol`` is the
    version of the worker's messages; a worker of version 1 sends none. ``waits`` asks
    for pipelines that need no slot: all slots of the worker are busy.
    """

    worker: Name
    pool: Name
    slots: Slots
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    is_retry: bool = False
    held_commands: Annotated[Sequence[Name], msgspec.Meta(max_length=4096)] = ()
    protocol: int = 1
    waits: bool = False


class WorkMessage(Reply, frozen=True):
    """A pipeline to start or to continue.

    ``playbook_key`` is the key of the playbook's text. ``sealed_secrets`` are those
    that the pipeline's tasks name, encrypted for this worker and this command.
    ``started``: the step has been reported as started.
    """

    lease: LeaseKey
    playbook_key: str
    extensions: Sequence[str]
    frame: Frame
    progress: Progress
    sealed_secrets: str | None = None
    folder: str | None = None
    started: bool = False


class ClaimReply(Reply, frozen=True, omit_defaults=True):
    """``lease_seconds`` is how long a lease lasts without a heartbeat. The claim had
    ``waited`` for that many seconds when the server began to lease this work. If the
    server ``has_accounts``, workers isolate code of playbooks from now on; the same
    field of other replies means the same."""

    work: Sequence[WorkMessage]
    lease_seconds: float
    has_accounts: bool = True
    waited: float = 0.0


class Report(Message, frozen=True):
    """Facts of one pipeline.

    ``number`` counts the reports of a lease from 1. ``is_retry``: the answer to this
    report was lost; the server records it once. ``prefetch`` asks for a pipeline that
    the report makes ready. ``receipts`` of uploaded values are by the values' keys.
    """

    lease: LeaseKey
    number: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    facts: Sequence[Fact]
    prefetch: bool = False
    is_retry: bool = False
    receipts: dict[str, str] = {}


class ReportBatch(Message, frozen=True):
    """Reports of one worker, of any number of leases."""

    worker: Name
    pool: Name
    reports: Sequence[Report]


class ReportReply(Reply, frozen=True):
    """The answer to one report.

    ``stop``: leave the pipeline. ``work``: continue with this one. ``spilled``: values
    of ``ctx`` may be stored elsewhere. ``error`` is the kind and message of a refusal.
    """

    stop: bool = False
    ctx: dict[str, JSON] | None = None
    work: WorkMessage | None = None
    spilled: bool = False
    duplicate: bool = False
    error: tuple[str, str] | None = None


class ReportBatchReply(Reply, frozen=True):
    """One reply for each report, in the order of the reports."""

    replies: Sequence[ReportReply]
    has_accounts: bool = True


class Heartbeat(Message, frozen=True):
    """Extends leases; or, if the worker is ``leaving``, gives them back."""

    worker: Name
    pool: Name
    slots: Slots
    leases: Sequence[LeaseKey]
    leaving: bool = False


class HeartbeatReply(Reply, frozen=True):
    """Commands whose tools must stop: the lease is lost, or it is cancelled."""

    lost: Sequence[str] = ()
    cancelled: Sequence[str] = ()
    has_accounts: bool = True


class PlaybookRequest(LeaseRequest, frozen=True):
    """Asks for the text of the lease's playbook."""


class ValueRequest(LeaseRequest, frozen=True):
    """Asks for the value of a reference."""

    reference: JSON


class UploadRequest(LeaseRequest, frozen=True):
    """Announces a value that follows: its hash and its size in bytes."""

    key: Key
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_UPLOAD_BYTES)]


class UploadReply(Blob, frozen=True):
    """The place of the stored value. The ``receipt`` goes with the report that names
    the value; workers that write to the store themselves get none.
    """

    receipt: str | None = None


class BlobRequest(LeaseRequest, frozen=True):
    """Asks for the bytes of a stored value; with ``only_check``, only whether the
    worker may read them."""

    key: Key
    only_check: bool = False


class SecretRequest(LeaseRequest, frozen=True):
    """Asks for the secret that a ``secrets`` task of the leased step names.

    Literal inputs of the task come from the playbook. ``name`` is what a template of
    the task gave.
    """

    task: str
    name: str | None = None


class SecretReply(Reply, frozen=True):
    """The handle of a secret, and the encrypted secret."""

    handle: dict[str, JSON]
    secret: str


class TokenRequest(LeaseRequest, frozen=True):
    """Asks for a token for a task of the leased step with ``auth: {type: oauth2}``.

    ``auth`` is what its templates gave, encrypted; literal inputs come from the
    playbook. A ``fresh`` token is not one that was given before.
    """

    task: str
    auth: str
    fresh: bool = False


class TokenReply(Reply, frozen=True):
    """The encrypted token."""

    auth: str


class PermitRequest(LeaseRequest, frozen=True):
    """Asks for one call of a tool under these limits. Without limits it frees the slots
    that the last call took."""

    limits: Annotated[Sequence[CallLimit], msgspec.Meta(max_length=2)]


class PermitReply(Reply, frozen=True):
    """``seconds`` until the worker may ask again; 0 permits the call."""

    seconds: float


class LogEntry(Message, frozen=True):
    """Lines that a task of a leased pipeline printed. ``visit`` counts the entries into
    the task, ``part`` the entries of this attempt's log, both from 1."""

    lease: LeaseKey
    task: Name
    visit: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    part: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    texts: Annotated[Sequence[LogText], msgspec.Meta(min_length=1, max_length=65_536)]


class LogBatch(Message, frozen=True):
    """Lines of one worker, of any number of leases. A part that is sent again is stored
    once."""

    worker: Name
    pool: Name
    entries: Annotated[Sequence[LogEntry], msgspec.Meta(max_length=MAX_REPORTS)]


class LogBatchReply(Reply, frozen=True):
    """Commands whose lines were refused: the worker does not hold their leases."""

    refused: Sequence[str] = ()


PATHS: Mapping[type[Message], str] = {
    ClaimRequest: "/api/worker/claim",
    ReportBatch: "/api/events",
    Heartbeat: "/api/worker/heartbeat",
    PlaybookRequest: "/api/worker/source",
    ValueRequest: "/api/worker/value",
    BlobRequest: "/api/worker/result",
    UploadRequest: "/api/worker/results",
    SecretRequest: "/api/worker/secret",
    TokenRequest: "/api/worker/token",
    PermitRequest: "/api/worker/permit",
    LogBatch: "/api/worker/logs",
}
"""The path of each request."""


class JsonCodec:
    """Messages as JSON. Servers and workers encode and decode by the same codec, so a
    version of the protocol can choose another encoding in one place."""

    media_type = "application/json"

    encode = staticmethod(msgspec.json.encode)

    def decode(self, body: bytes, shape: type[T]) -> T:
        """Decode. Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``."""
        return msgspec.json.decode(body, type=shape)


codec = JsonCodec()


class _Version(msgspec.Struct, frozen=True):
    protocol: int = 1


def claimed_protocol(body: bytes) -> int:
    """Return the version of a claim, whose fields may be of another version.

    Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``.
    """
    return codec.decode(body, _Version).protocol


def is_served(protocol: int) -> bool:
    """Return whether a server serves workers of this version."""
    return OLDEST <= protocol <= PROTOCOL


def wrong_version(protocol: Any) -> str:
    """Return the message for a worker of another version."""
    served = str(PROTOCOL) if OLDEST == PROTOCOL else f"{OLDEST} to {PROTOCOL}"
    is_newer = isinstance(protocol, int) and protocol > PROTOCOL
    hint = "upgrade the server first" if is_newer else "upgrade the worker"
    return (
        f"this worker speaks version {protocol} of the workers' protocol, this server "
        f"version {served}: {hint}"
    )
