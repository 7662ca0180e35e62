"""Heads that a connection repeats: workers and other programs send the same one with
each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.types import Scope

T = TypeVar("T")

MAX_KNOWN_BYTES = 4 * 1024
"""Bytes of a head that a connection remembers."""
_MAX_DIGITS = 9
_END = b"\r\n\r\n"
_LENGTH = b"content-length"
_UNREPEATABLE = frozenset(
    {b"transfer-encoding", b"expect", b"upgrade", b"connection", b"trailer"}
)
_REMEMBER = "noetl.remember"
_CHECKED = "noetl.checked"


class KnownHead(msgspec.Struct, frozen=True):
    """A head whose request was authorized: its bytes before and after the length of the
    body.

    ``checked`` is what the application found in the head. Nothing that may change while
    a connection is open is part of it: the credential is checked again each time.
    """

    before: bytes
    after: bytes
    scope: Scope
    place: int
    checked: Any

    def body_of(self, data: bytes) -> bytes | None:
        """Return the body of a request that arrived complete, with this head and
        nothing after it; None for any other data, which must be parsed."""
        before, after = self.before, self.after
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _MAX_DIGITS + 1)
        if end < 0 or not data.startswith(after, end):
            return None
        body = data[end + len(after) :]
        return body if data[start:end] == b"%d" % len(body) else None

    def scope_with(self, size: int) -> Scope:
        """Return the scope of a request with a body of this size."""
        headers = list(self.scope["headers"])
        headers[self.place] = _LENGTH, b"%d" % size
        return {**self.scope, "headers": headers, "state": {}}


def learn(data: bytes, scope: Scope, checked: Any) -> KnownHead | None:
    """Return the head of a request that was parsed from exactly this data; None if it
    has another form than the plain one of programs.

    The head is taken apart again, and must give what the parser found: then equal bytes
    give the same.
    """
    headers = scope["headers"]
    names = [name for name, _ in headers]
    if names.count(_LENGTH) != 1 or not _UNREPEATABLE.isdisjoint(names):
        return None
    head, _, body = data.partition(_END)
    if len(head) > MAX_KNOWN_BYTES:
        return None
    first, *lines = head.split(b"\r\n")
    parts = [line.partition(b":") for line in lines]
    found = [(name.lower(), value.strip(b" \t")) for name, _, value in parts]
    place, query = names.index(_LENGTH), scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    digits = headers[place][1]
    is_plain = (
        first == b"%b %b HTTP/1.1" % (scope["method"].encode(), target)
        and scope["http_version"] == "1.1"
        and found == headers
        and lines[place].endswith(digits)
        and digits == b"%d" % len(body)
    )
    if not is_plain:
        return None
    kept = {name: scope[name] for name in _KEPT if name in scope}
    kept["headers"] = headers
    before = b"\r\n".join([first, *lines[: place + 1]])[: -len(digits)]
    after = b"\r\n".join([b"", *lines[place + 1 :], b"", b""])
    return KnownHead(before, after, kept, place, checked)


_KEPT = (
    *("type", "asgi", "http_version", "server", "client", "scheme", "root_path"),
    *("method", "path", "raw_path", "query_string"),
)


def offer(scope: Scope, remember: Callable[[Any], None]) -> None:
    """Let the application remember the head of this request."""
    scope[_REMEMBER] = remember


def remember(scope: Scope, checked: Any) -> None:
    """Remember the head of an authorized request, with what was found in it."""
    take: Callable[[Any], None] | None = scope.get(_REMEMBER)
    if take is not None:
        take(checked)


def repeat(scope: Scope, checked: Any) -> None:
    """Mark a request that repeats a head."""
    scope[_CHECKED] = checked


def checked_in(scope: Scope, shape: type[T]) -> T | None:
    """Return what was found in the head when it was sent before."""
    found = scope.get(_CHECKED)
    return found if isinstance(found, shape) else None
