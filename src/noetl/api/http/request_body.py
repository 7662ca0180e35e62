"""Request bodies: limits before they are read, strict decoding after."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from noetl.api.http.problems import Problem
from noetl.engine.values.references import admit
from noetl.errors import ProtocolError
from noetl.runtime.worker_protocol import messages
from noetl.service.access.authenticate import Headers
from noetl.types import JSON

T = TypeVar("T", bound=msgspec.Struct)
U = TypeVar("U")

WHOLE = "noetl.is_whole"
"""The member of a scope that says that the complete body has arrived."""
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a body (RELIABILITY 4.4)."""
MAX_PUBLIC_BODY_BYTES = 4 * 1024
"""Maximum bytes of a body on routes without authentication."""
MAX_PLAYBOOK_BODY_BYTES = 2 * 1024 * 1024
"""Maximum bytes of a body with a playbook: 1 MiB of source, and its JSON escapes."""
DISCARD_FACTOR = 8
"""Multiple of the largest body that is read and discarded, so that the sender of a
larger one receives the refusal."""
MIN_DISCARD_BYTES = 256 * 1024
SMALL_BODY_BYTES = 64 * 1024
"""Bytes up to which a body is not counted, and is decoded in the event loop."""
BODY_TIMEOUT_S = 30.0
"""Seconds within which a body must arrive."""
MIN_BYTES_PER_S = 16 * 1024
"""Minimum average bytes per second of a body that is read in parts."""
MAX_NESTING = 100
MAX_CONTAINERS = 200_000
"""Lists and objects in a body: a million of them would block the loop for a second."""
STREAMED = ("request.aborted", "request.timeout", "request.too_large")
"""Problems of a body that is read in parts."""
_MAX_DIGITS = 64
_CONTAINERS = (dict, list)
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CLOSE = {"Connection": "close"}

Reserve = Callable[[int], None]
"""Counts bytes that are about to be in memory. Raises ``Problem``."""


def _uncounted(size: int) -> None: ...


async def read_body(
    request: Request,
    shape: type[T],
    largest: int = MAX_BODY_BYTES,
    reserve: Reserve = _uncounted,
    *,
    headers: Headers,
) -> T:
    """Read the body and decode it as this type. Raises ``Problem``."""
    body = await read_bytes(request, largest, reserve)
    if not body and not required_fields(shape):
        return shape()
    if issubclass(shape, messages.Message):
        _check_type(headers, messages.codec.media_type)
        return await _apart(len(body), read_message, body, shape)
    _check_type(headers)
    return await _apart(len(body), _read, body, shape)


async def read_json(headers: Headers, body: bytes) -> JSON:
    """Decode these bytes as JSON. Raises ``Problem``."""
    _check_type(headers)
    return await _apart(len(body), decode, body)


async def _apart(size: int, work: Callable[..., U], *args: Any) -> U:
    """Run the work in a thread if the body is large, so that the loop serves others."""
    if size > SMALL_BODY_BYTES:
        return await asyncio.to_thread(work, *args)
    return work(*args)


def _read(body: bytes, shape: type[T]) -> T:
    return _convert(decode(body), shape)


def read_message(body: bytes, shape: type[T]) -> T:
    """Decode a worker's message by its type alone: thousands arrive per second, and the
    types are strict enough."""
    containers = _check_containers(body)
    try:
        message = messages.codec.decode(body, shape)
    except msgspec.ValidationError as error:
        if issubclass(shape, messages.ClaimRequest):
            _check_version(body)
        raise _not_fitting(error, shape) from None
    except RecursionError:
        raise _not_json(f"nested deeper than {MAX_NESTING} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    if containers > MAX_NESTING and isinstance(message, messages.ReportBatch):
        _count_keys([fact.payload for each in message.reports for fact in each.facts])
    return message


def _check_version(body: bytes) -> None:
    """Fields of a claim differ between versions, and its sender must learn that the
    version is wrong. Raises ``Problem``."""
    with suppress(ValueError, RecursionError):  # the rest of the body may be no JSON
        version = messages.claimed_protocol(body)
        if not messages.is_served(version):
            raise Problem(ProtocolError.kind, messages.wrong_version(version))


async def read_parts(request: Request, announced: int) -> AsyncIterator[bytes]:
    """Yield a body in parts, each within a time limit. Raises ``Problem``."""
    size, parts = 0, request.stream()
    end = time.monotonic() + BODY_TIMEOUT_S + announced / MIN_BYTES_PER_S
    while True:
        try:
            async with asyncio.timeout(min(BODY_TIMEOUT_S, end - time.monotonic())):
                part = await anext(parts, None)
        except TimeoutError:
            message = f"the body stopped for more than {BODY_TIMEOUT_S:g} seconds"
            raise Problem("request.timeout", message, headers=_CLOSE) from None
        except ClientDisconnect:
            raise _aborted() from None
        if part is None:
            return
        size += len(part)
        if size > announced:
            message = f"the body is larger than the {announced:,} bytes announced"
            raise Problem("request.too_large", message, headers=_CLOSE)
        yield part


def required_fields(shape: type[Any]) -> bool:
    return any(field.required for field in msgspec.structs.fields(shape))


async def read_bytes(
    request: Request, largest: int, reserve: Reserve = _uncounted
) -> bytes:
    """Return the body if it has at most ``largest`` bytes. Raises ``Problem``."""
    if WHOLE not in request.scope:
        return await _read_on(request, largest, reserve)
    message = await request.receive()
    if message["type"] != "http.request":
        raise _aborted()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        return await _read_on(request, largest, reserve, body)
    if len(body) > largest:
        raise _too_large(largest)
    if len(body) > SMALL_BODY_BYTES:
        reserve(len(body))
    return body


def _announced(request: Request) -> int:
    said = request.headers.get("content-length", "0")
    return int(said) if said.isdigit() else 0


async def _read_on(
    request: Request, largest: int, reserve: Reserve, first: bytes = b""
) -> bytes:
    """Read the rest of a body within a time limit."""
    announced = _announced(request)
    if announced > max(DISCARD_FACTOR * largest, MIN_DISCARD_BYTES):
        raise _too_large(largest)
    counted = SMALL_BODY_BYTES
    if SMALL_BODY_BYTES < announced <= largest:
        reserve(announced)
        counted = announced
    parts = [first]
    size = len(first)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                size += len(part)
                if size > max(DISCARD_FACTOR * largest, MIN_DISCARD_BYTES):
                    break
                if size <= largest and announced <= largest:
                    if size > counted:
                        reserve(size - counted)
                        counted = size
                    parts.append(part)
                else:
                    parts.clear()
    except TimeoutError:
        message = f"the body did not arrive within {BODY_TIMEOUT_S:g} seconds"
        raise Problem("request.timeout", message, headers=_CLOSE) from None
    except ClientDisconnect:
        raise _aborted() from None
    if size > largest:
        raise _too_large(largest)
    return b"".join(parts)


def _aborted() -> Problem:
    return Problem("request.aborted", "the client disconnected")


def _too_large(largest: int) -> Problem:
    message = f"the body is larger than {largest:,} bytes"
    return Problem("request.too_large", message, headers=_CLOSE)


def _check_type(headers: Headers, expected: str = "application/json") -> None:
    said = headers.get("content-type", ())
    if said == [expected] and "content-encoding" not in headers:
        return
    plain = said[0].split(";")[0].strip().lower() if len(said) == 1 else ""
    if plain != expected:
        found = f"found '{said[0][:80]}'" if said else "found none"
        message = f"the content type must be {expected}, {found}"
        raise Problem("request.content_type", message)
    codings = headers.get("content-encoding", ())
    if any(each.strip().lower() != "identity" for each in codings):
        message = "compressed bodies are not supported: remove Content-Encoding"
        raise Problem("request.content_type", message)


def decode(body: bytes) -> JSON:
    """Decode strict JSON: no NaN, duplicate keys, lone surrogates, deep nesting or
    forged references to stored values (S-82).

    The decoder keeps the last of duplicate keys and rounds long numbers. It did neither
    if the text has as many colons as the value has keys and no long row of digits; only
    other texts are parsed a second time.
    """
    _check_containers(body)
    try:
        value = msgspec.json.decode(body)
        is_plain = body.count(b":") == _count_keys(value)
        if not is_plain or b"0" * _MAX_DIGITS in body.translate(_DIGITS):
            json.loads(
                body,
                object_pairs_hook=_without_duplicates,
                parse_int=_whole,
                parse_float=_unread,
            )
    except RecursionError:
        raise _not_json(f"nested deeper than {MAX_NESTING} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    admit(value)
    return value


def _check_containers(body: bytes) -> int:
    """Count lists and objects before decoding; return no fewer than there are. Raises
    ``Problem``."""
    count = body.count(b"[") + body.count(b"{")
    if count <= MAX_CONTAINERS:
        return count
    for text in _TEXT.finditer(body):  # brackets in strings do not count
        count -= body.count(b"[", *text.span()) + body.count(b"{", *text.span())
    if count > MAX_CONTAINERS:
        reason = f"more than {MAX_CONTAINERS:,} lists and objects in one body"
        raise _not_json(f"{reason}; pass large inputs as references")
    return count


def _without_duplicates(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key '{name[:80]}' is given twice")
            seen.add(name)
    return found


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return 0


def _unread(digits: str) -> float:
    return 0.0


def _count_keys(value: JSON) -> int:
    """Count the keys of all objects. Raises ``Problem`` if the nesting is too deep."""
    level, keys = [value], 0
    for _ in range(MAX_NESTING):
        inside: list[JSON] = []
        for each in level:
            if isinstance(each, dict):
                keys += len(each)
                inside += [v for v in each.values() if isinstance(v, _CONTAINERS)]
            elif isinstance(each, list):
                inside += [v for v in each if isinstance(v, _CONTAINERS)]
        if not inside:
            return keys
        level = inside
    raise _not_json(f"nested deeper than {MAX_NESTING} levels")


def _not_json(reason: str) -> Problem:
    return Problem("json.invalid", f"the body cannot be read as JSON: {reason}")


def _convert(value: JSON, shape: type[T]) -> T:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise _not_fitting(error, shape) from None


def _not_fitting(error: msgspec.ValidationError, shape: type[Any]) -> Problem:
    message = f"the body is not valid: {error}"
    known = ", ".join(field.name for field in msgspec.structs.fields(shape))
    hint = f"the members of the body are: {known}" if known else "send no body"
    if "unknown field" in message:
        return Problem("request.unknown_field", message, hint=hint)
    return Problem("request.invalid", message, hint=hint)
