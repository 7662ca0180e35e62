"""The public interface for plug-ins: import from here, and from nowhere else in NoETL.

A plug-in is an entry point of a package; the operator enables the package by the
setting ``plugins``. Each group of entry points has its own declaration: ``noetl.tools``
a ``ToolPlugin``, ``noetl.secrets`` a ``SecretPlugin``, ``noetl.results`` a
``ResultPlugin``.

``API`` changes when a plug-in that works could stop working. Names may be added
without that; none of this module goes away, or changes its meaning, under the same
number. A plug-in states the number it was written for, as a number: ``api=1``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.grammar.shape import (
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
from noetl.dsl.kinds import Input, Kind
from noetl.engine.outcome import Failure, Outcome
from noetl.errors import BlobGone, SecretError, StoreError, ToolError
from noetl.ports import SecretProvider, Tool, ToolCall, Wanted
from noetl.types import JSON

API = 1


class ToolPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A tool kind. The entry point is named as the kind."""

    api: int
    kind: Kind
    make: Callable[[], Tool]


class SecretPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of keychain entry. The entry point is named as the kind."""

    api: int
    kind: KeychainKind
    make: Callable[[], SecretProvider]


class ResultStore(Protocol):
    """Large values by their keys. NoETL makes the keys, and compares what it gets."""

    async def put(self, key: str, data: bytes) -> None:
        """Durable when it returns; the same key always comes with the same bytes."""
        ...

    async def get(self, key: str) -> bytes:
        """What was put. Raises ``BlobGone`` if it is not there."""
        ...


class ResultPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A store of large results. The entry point is named as the scheme of its URLs.

    ``make`` gets the whole URL. It raises ``ValueError`` for one that it cannot use.
    """

    api: int
    make: Callable[[str], ResultStore]


__all__ = [
    "ANY",
    "BOOLEAN",
    "DURATION",
    "JSON",
    "LIST",
    "MAPPING",
    "TEXT",
    "BlobGone",
    "Failure",
    "Field",
    "Input",
    "KeychainKind",
    "Kind",
    "Outcome",
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
