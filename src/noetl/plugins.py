"""The public interface for plug-ins: import from here, and from nowhere else in NoETL.

A plug-in is an entry point of a package; the operator enables the package by the
setting ``plugins``. Each group of entry points has its own declaration: ``noetl.tools``
a ``ToolPlugin``, ``noetl.secrets`` a ``SecretPlugin``, ``noetl.results`` a
``ResultPlugin``, ``noetl.quantum`` a ``QuantumPlugin``, ``noetl.keys`` a ``KeyPlugin``.

``API`` changes when a working plug-in could stop working. Names may be added without a
change of ``API``; no name of this module is removed, or changes its meaning, under the
same number. A plug-in states the number it was written for, as a literal: ``api=1``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.grammar.records import (
    ANY,
    BOOLEAN,
    DURATION,
    LIST,
    MAPPING,
    TEXT,
    Field,
    Shape,
    integer,
    list_of,
    one_of,
)
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Failure, Outcome
from noetl.errors import BlobGone, SecretError, StoreError, ToolError
from noetl.ports import SecretProvider, Tool, ToolCall, Wanted
from noetl.types import JSON

API = 1


class ToolPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A tool kind. The entry point has the name of the kind."""

    api: int
    kind: Kind
    make: Callable[[], Tool]


class SecretPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of keychain entry. The entry point has the name of the kind."""

    api: int
    kind: KeychainKind
    make: Callable[[], SecretProvider]


class ResultStore(Protocol):
    """A store of large values by key. NoETL makes the keys and verifies the values."""

    async def put(self, key: str, data: bytes) -> None:
        """Store ``data`` durably before returning; a key always has the same bytes."""
        ...

    async def get(self, key: str) -> bytes:
        """Return the stored bytes. Raises ``BlobGone`` if there are none."""
        ...


class ResultPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A store of large results. The entry point has the name of its URL scheme.

    ``make`` gets the whole URL. It raises ``ValueError`` for a URL that it cannot use.
    """

    api: int
    make: Callable[[str], ResultStore]


JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a quantum job. ``text`` is OpenQASM; ``params`` are its inputs.

    ``memory`` (bytes) and ``timeout`` (seconds) are limits of a simulator.
    """

    text: str
    shots: int
    params: Mapping[str, JSON] | Sequence[JSON] | None = None
    seed: int | None = None
    options: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    memory: int | None = None
    timeout: float | None = None


class QuantumProvider(Protocol):
    """A provider that runs circuits; the ids of its jobs are valid in every process.

    ``auth`` is the credential that the task names, or null. Every method raises
    ``ToolError``; an unknown job is ``quantum.unknown_job``.
    """

    async def submit(self, circuit: Circuit, auth: JSON, key: str) -> str:
        """Start a job and return its id. The same ``key`` means the same job."""
        ...

    async def status(self, job: str, auth: JSON) -> JobStatus: ...

    async def result(self, job: str, auth: JSON) -> Mapping[str, JSON]:
        """Return ``counts`` by bit strings, and other data, of a job that is done.

        Raises the error of a job that failed.
        """
        ...

    async def cancel(self, job: str, auth: JSON) -> None:
        """Cancel a job; does nothing if it has finished."""
        ...

    async def close(self) -> None: ...


class QuantumPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of the tool kind ``quantum``. The entry point has its name."""

    api: int
    make: Callable[[], QuantumProvider]


class KeyService(Protocol):
    """A service that holds the key of a cluster's keychain, and never gives it away.

    It seals the keys that NoETL makes; NoETL proves that it opens them again.
    """

    async def seal(self, key: bytes) -> bytes:
        """Return the key in sealed form: up to 64 KiB, which are stored as they
        are."""
        ...

    async def open(self, sealed: bytes) -> bytes:
        """Return the key. Raises ``SecretError`` if it cannot be opened."""
        ...


class KeyPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A service of keys. The entry point has the name of its scheme in the setting
    ``keychain_key``.

    ``make`` gets the whole setting. It raises ``ValueError`` for one that it cannot
    use.
    """

    api: int
    make: Callable[[str], KeyService]


__all__ = [
    "ANY",
    "BOOLEAN",
    "DURATION",
    "JSON",
    "LIST",
    "MAPPING",
    "TEXT",
    "BlobGone",
    "Circuit",
    "Failure",
    "Field",
    "Input",
    "JobStatus",
    "KeyPlugin",
    "KeyService",
    "KeychainKind",
    "Kind",
    "Outcome",
    "QuantumPlugin",
    "QuantumProvider",
    "ResultPlugin",
    "ResultStore",
    "SecretError",
    "SecretPlugin",
    "SecretProvider",
    "Shape",
    "StoreError",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolPlugin",
    "Wanted",
    "integer",
    "list_of",
    "one_of",
]
