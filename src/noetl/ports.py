"""The seams: what the runtime asks of the outside, each a protocol with promises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal, Protocol

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.document import elapsed_ms
from noetl.engine.events import Event
from noetl.engine.outcome import Outcome, Stored
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError, ToolError
from noetl.types import JSON


class Command(msgspec.Struct, frozen=True):
    """A pipeline that waits for a worker: a step run or one iteration of it.

    ``command_id`` is derived (``step_run_id`` or ``iteration_id``), so planning again
    gives the same command. ``not_before`` is in seconds since the epoch.
    """

    command_id: str
    execution_id: str
    pool: str = "default"
    not_before: float = 0.0


Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,400}$")]
"""What names something to a store, where it comes from outside."""


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right to run a command: ``epoch`` grows with every claim of it."""

    command_id: Name
    execution_id: Name
    owner: Name
    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Timer(msgspec.Struct, frozen=True):
    execution_id: str
    timer_id: str
    due_at: float
    kind: Literal["deadline", "delay", "wait", "family"]


class Summary(msgspec.Struct, frozen=True):
    """The line of an execution in a listing."""

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    started_at: str
    finished_at: str | None = None
    error: dict[str, JSON] | None = None
    parent_id: str | None = None
    forked_from: dict[str, JSON] | None = None


def summary_document(summary: Summary) -> dict[str, JSON]:
    """The line as ``noetl list --json`` and the API have it."""
    line: dict[str, JSON] = msgspec.to_builtins(summary)
    line["duration_ms"] = elapsed_ms(summary.started_at, summary.finished_at or "")
    return line


class Grant(msgspec.Struct, frozen=True):
    """Commands of a transition that have an owner from the start.

    Whoever reports may take what its report made ready, without a claim.
    """

    leases: Sequence[Lease]
    expires_at: float


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one settlement changes: it is stored whole, or not at all.

    ``after`` is the position the decision was made on. ``bodies`` are the events as
    they are stored, where whoever decided has encoded them already. ``leases`` are
    those of the workers whose reports caused it; each must be held. ``reported`` are
    the numbers of these reports, by their commands. ``done`` ends and forgets commands,
    ``release`` gives leases back; one that is in ``commands``, too, is planned again
    for its new ``not_before``. ``snapshot`` is the state after the last of the events,
    for a faster start: it replaces an earlier one. ``notify`` arms timers of its
    relatives, callers and called, as far as they are open: they look what has become
    of it. ``history`` are events, encoded, that a new execution begins with: those up
    to ``after``. ``request_key`` is the one of the request that a new execution
    answers: no other execution ever has it.
    """

    execution_id: str
    after: int
    events: Sequence[Event]
    summary: Summary
    bodies: Sequence[bytes] | None = None
    leases: Sequence[Lease] = ()
    reported: Mapping[str, int] = {}
    commands: Sequence[Command] = ()
    grant: Grant | None = None
    done: Sequence[str] = ()
    release: Sequence[str] = ()
    timers: Sequence[Timer] = ()
    disarm: Sequence[str] = ()
    notify: Sequence[Timer] = ()
    snapshot: bytes | None = None
    history: Sequence[bytes] = ()
    request_key: str | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """A state that need not be folded again: what the log added up to at ``seq``."""

    seq: int
    body: bytes


class Store(Protocol):
    """Append-only history, and what it makes due; one ordered stream per execution.

    ``shared`` says that other processes may write to it at the same time.
    """

    shared: bool

    async def commit(self, transitions: Sequence[Transition]) -> None:
        """Fence, events, commands and timers of all of them: durable when it returns.

        Raises ``LogConflict`` if a stream has moved past ``after``, ``LeaseLost`` if
        a reporting lease is not the current one, ``RequestKnown`` if a request key has
        an execution already; then nothing of the group is stored.
        """
        ...

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """The events in order; ``seq`` starts at 1 and has no gaps."""
        ...

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """The last one that a transition brought, if any did."""
        ...

    async def claim(
        self, owner: str, *, pool: str, slots: int, now: float, ttl: float
    ) -> Sequence[Lease]:
        """Lease up to ``slots`` ready commands, fairly between executions."""
        ...

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        """Extend leases; those that are lost are returned."""
        ...

    async def reported(self, lease: Lease) -> int | None:
        """The number of the last report under this lease; None if it is not held."""
        ...

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        """Make commands of expired leases ready again; return the timers that are due.

        A due timer stays armed until a transition disarms it.
        """
        ...

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Summary]:
        """Executions, newest first; ``before`` is the last id of the page before.

        One that is not here counts by its place in the order of ids.
        """
        ...

    async def summary(self, execution_id: str) -> Summary:
        """The line of one execution. Raises ``StoreError`` (``store.missing``)."""
        ...

    async def find_request(self, request_key: str) -> str | None:
        """The execution that answers a request, if there is one."""
        ...


class Draft(Protocol):
    """A list of rows on its way into the result store, masked as results are."""

    size: int

    async def add(self, rows: Sequence[JSON]) -> None:
        """Raises ``ToolError`` for what is no JSON, or forged."""
        ...

    async def keep(self) -> Stored:
        """Store it: whole, verified and durable when this returns."""
        ...

    def drop(self) -> None:
        """Forget it; after ``keep`` there is nothing to forget."""
        ...


class Drafts(Protocol):
    """What a tool does with results that are too large to hand over."""

    def open(self) -> Draft: ...

    def file(self) -> str:
        """A new file, for who writes it by himself, to be adopted."""
        ...

    async def adopt(self, file: str, hint: str) -> Stored:
        """Store a file; one of ``json`` is JSON lines, and becomes a list."""
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one task: rendered inputs, effective knobs, nothing else.

    ``drafts`` takes large results; without it they must be handed over.
    """

    kind: str
    inputs: Mapping[str, JSON]
    spec: Mapping[str, JSON]
    execution_id: str
    step: str
    task: str
    action_id: str
    attempt: int
    folder: str | None = None  # the playbook's own folder, for modules and files
    drafts: Drafts | None = None


class Tool(Protocol):
    """A kind at work. Knows no templates, policies, retries or events.

    One that is ``instant`` waits for nothing, so there is nothing to stop.
    """

    instant: bool

    def has_effect(self, call: ToolCall) -> bool:
        """Whether doing it twice may hurt: then its start is recorded first."""
        ...

    async def run(self, call: ToolCall) -> Outcome:
        """Do it once. Raises ``ToolError``; being cancelled stops the work for good."""
        ...

    async def close(self) -> None:
        """Give back processes, sessions and pools."""
        ...


class Blob(msgspec.Struct, frozen=True):
    """What is known of a blob without reading it; ``at`` is when it was last put."""

    key: str
    size: int
    at: float


class Blobs(Protocol):
    """Large values by their content: the key is the SHA-256 of the bytes.

    ``place`` says in a message where it looks. ``drafts`` is a folder on this machine
    for values that are still being written.
    """

    place: str
    drafts: str

    async def put(self, data: bytes) -> str:
        """Store and return the key; durable when it returns, once however often put."""
        ...

    async def adopt(self, file: str) -> Blob:
        """The same for what a draft holds, however large. Then the draft is gone."""
        ...

    async def get(self, key: str) -> bytes:
        """The bytes, verified. Raises ``BlobGone`` or ``BlobCorrupt``."""
        ...

    def file(self, key: str) -> AbstractAsyncContextManager[str]:
        """A file with the bytes, verified, for a while; it may be the blob itself.

        Raises as ``get`` when it is entered.
        """
        ...

    def each(self) -> AsyncIterator[Blob]:
        """All that are there, in no order."""
        ...

    async def remove(self, key: str, before: float) -> bool:
        """Forget it, unless it was put, once more, after that moment."""
        ...

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        """Remove drafts that nobody has written to since; they have no keys."""
        ...

    async def others(self) -> int:
        """How many other homes keep theirs here: then nobody knows what is named."""
        ...


def tool_error(error: StoreError, message: str) -> ToolError:
    """What the error of a store is to the call that needed it."""
    if error.kind == "store.unreachable":
        return ToolError("store.unreachable", message, retryable=True)
    return ToolError(error.kind, message)


class Wanted(msgspec.Struct, frozen=True):
    """A secret that is asked for: an entry of a keychain, or a ``secrets`` task.

    ``fields`` say where it is; a relative path is seen from ``folder``. One that must
    be ``fresh`` is not taken from a cache.
    """

    name: str
    kind: str
    fields: Mapping[str, JSON]
    folder: str | None = None
    fresh: bool = False

    def __repr__(self) -> str:
        return f"Wanted({self.name!r}, {self.kind!r})"  # a field may be a secret


class SecretProvider(Protocol):
    """Who keeps secrets of one kind."""

    async def get(self, wanted: Wanted) -> JSON:
        """A text, or a mapping of fields. Raises ``SecretError``, without secrets."""
        ...


class SealedStore(Protocol):
    """Secrets of executions that are under way: sealed, and not in the log."""

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        """Seal and keep it; durable when this returns."""
        ...

    async def load(self, execution_id: str) -> dict[str, JSON]:
        """All of an execution by their names. Raises ``SecretError``."""
        ...

    async def drop(self, execution_id: str) -> None:
        """Forget them; nothing happens if there are none."""
        ...

    async def kept(self) -> Sequence[str]:
        """The executions that have some."""
        ...


class Keys(Protocol):
    """What a tool may ask about secrets."""

    async def fetch(
        self,
        execution_id: str,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """Look it up, seal it, and give its handle. Raises ``SecretError``."""
        ...


class CatalogEntry(msgspec.Struct, frozen=True):
    """A playbook as it was found; without it, ``error`` says why it is not valid."""

    playbook: Playbook | None
    about: dict[str, JSON]
    error: dict[str, JSON] = msgspec.field(default_factory=dict)


class Catalog(Protocol):
    """Playbooks by their path. ``place`` says in a message where it looks."""

    place: str

    async def find(self, path: str, version: str | None) -> CatalogEntry | None: ...

    async def pinned(self, about: dict[str, JSON]) -> Playbook:
        """The playbook an execution was accepted with, whatever is there now."""
        ...


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a playbook in the catalog; ``source`` is the key of its text."""

    playbook_id: str
    path: str
    version: str
    name: str
    sha256: str
    source: str
    registered_at: str
    registered_by: str | None = None
    extensions: tuple[str, ...] = ()


class Shelf(Protocol):
    """Versions of playbooks, each of which stays as it was registered."""

    async def add(self, playbook: Registered) -> Registered:
        """Keep it, or give back what is there already under the same digest.

        Without a version it becomes the next whole number of its path, unless the
        latest version is the same playbook. Raises ``VersionTaken`` if another one has
        its version.
        """
        ...

    async def get(self, playbook_id: str) -> Registered | None: ...

    async def find(self, path: str, version: str | None) -> Registered | None:
        """That version, or the latest: 1.10 is later than 1.9 (S-43)."""
        ...

    async def versions(self, path: str, *, limit: int = 1_000) -> Sequence[Registered]:
        """The latest first."""
        ...

    async def latest(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Registered]:
        """The latest version of each path that begins so, in the order of paths."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...
