"""Bodies of requests: bounded before they are read, strict when they are."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from noetl.api.problems import Problem
from noetl.api.protocol import is_whole
from noetl.engine.references import admit
from noetl.runtime import wire
from noetl.types import JSON

T = TypeVar("T", bound=msgspec.Struct)
U = TypeVar("U")

LARGEST = 4 * 1024 * 1024
"""Bytes of a request (RELIABILITY 4.4)."""
LARGEST_PUBLIC = 4 * 1024
"""Bytes of a request by a sender who need not say who they are."""
LARGEST_PLAYBOOK = 2 * 1024 * 1024
"""Bytes of a request with a playbook: its text has 1 MiB, JSON escapes some of it."""
IGNORED = 8
"""So many times the largest body is read and thrown away, so that the sender of one
that is too large is told so."""
LEAST_IGNORED = 256 * 1024
SMALL = 64 * 1024
"""Bytes up to which a body is not counted, and is decoded at once."""
PATIENCE = 30.0
"""Seconds in which a body must be here."""
SLOWEST = 16 * 1024
"""Bytes a second of a body that is read in parts, on the average."""
DEEPEST = 100
MOST_CONTAINERS = 200_000
"""Lists and objects in a body: a million of them would stop the loop for a second."""
STREAMED = ("request.aborted", "request.timeout", "request.too_large")
"""What may go wrong with a body that is read in parts."""
_LONGEST_NUMBER = 64
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
    largest: int = LARGEST,
    reserve: Reserve = _uncounted,
) -> T:
    """The body as this type. Raises ``Problem``."""
    body = await read_bytes(request, largest, reserve)
    if not body and not required_fields(shape):
        return shape()
    _check_type(request)
    if issubclass(shape, wire.Message):
        return await _apart(len(body), read_message, body, shape)
    return await _apart(len(body), _read, body, shape)


async def read_json(request: Request, body: bytes) -> JSON:
    """What these bytes of the request say. Raises ``Problem``."""
    _check_type(request)
    return await _apart(len(body), decode, body)


async def _apart(size: int, work: Callable[..., U], *args: Any) -> U:
    """Large bodies are decoded beside the loop, which serves others meanwhile."""
    if size > SMALL:
        return await asyncio.to_thread(work, *args)
    return work(*args)


def _read(body: bytes, shape: type[T]) -> T:
    return _convert(decode(body), shape)


def read_message(body: bytes, shape: type[T]) -> T:
    """What workers say, in one go: programs write it, thousands of facts a second, and
    the types say more than a second look at the text could."""
    _check_containers(body)
    try:
        message = msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise _not_fitting(error, shape) from None
    except RecursionError:
        raise _not_json(f"nested deeper than {DEEPEST} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    if isinstance(message, wire.Reports):
        _count_keys([fact.payload for each in message.reports for fact in each.facts])
    return message


async def read_parts(request: Request, announced: int) -> AsyncIterator[bytes]:
    """A body of bytes as it comes, of which none may be late. Raises ``Problem``."""
    size, parts = 0, request.stream()
    end = time.monotonic() + PATIENCE + announced / SLOWEST
    while True:
        try:
            async with asyncio.timeout(min(PATIENCE, end - time.monotonic())):
                part = await anext(parts, None)
        except TimeoutError:
            message = f"no more of the body came within {PATIENCE:g} seconds"
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
    """The body, if it has no more bytes than this. Raises ``Problem``."""
    announced = _announced(request)
    if announced > max(IGNORED * largest, LEAST_IGNORED):
        raise _too_large(largest)
    if not is_whole(request.scope):
        return await _read_on(request, largest, reserve, announced)
    message = await request.receive()
    if message["type"] != "http.request":
        raise _aborted()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        return await _read_on(request, largest, reserve, announced, body)
    if len(body) > largest:
        raise _too_large(largest)
    if len(body) > SMALL:
        reserve(len(body))
    return body


def _announced(request: Request) -> int:
    said = request.headers.get("content-length", "0")
    return int(said) if said.isdigit() else 0


async def _read_on(
    request: Request, largest: int, reserve: Reserve, announced: int, first: bytes = b""
) -> bytes:
    """What does not come at once, within some time."""
    counted = SMALL
    if SMALL < announced <= largest:
        reserve(announced)
        counted = announced
    parts = [first]
    size = len(first)
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > max(IGNORED * largest, LEAST_IGNORED):
                    break
                if size <= largest and announced <= largest:
                    if size > counted:
                        reserve(size - counted)
                        counted = size
                    parts.append(part)
                else:
                    parts.clear()
    except TimeoutError:
        message = f"the body was not here within {PATIENCE:g} seconds"
        raise Problem("request.timeout", message, headers=_CLOSE) from None
    except ClientDisconnect:
        raise _aborted() from None
    if size > largest:
        raise _too_large(largest)
    return b"".join(parts)


def _aborted() -> Problem:
    return Problem("request.aborted", "the client left")


def _too_large(largest: int) -> Problem:
    message = f"the body is larger than {largest:,} bytes"
    return Problem("request.too_large", message, headers=_CLOSE)


def _check_type(request: Request) -> None:
    said = request.headers.getlist("content-type")
    plain = said[0].split(";")[0].strip().lower() if len(said) == 1 else ""
    if plain != "application/json":
        found = f"found '{said[0][:80]}'" if said else "found none"
        message = f"the content type must be application/json, {found}"
        raise Problem("request.content_type", message)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        message = "compressed bodies are not taken: send it without Content-Encoding"
        raise Problem("request.content_type", message)


def decode(body: bytes) -> JSON:
    """Strict JSON: no NaN, no duplicate keys, no half surrogates, nothing too deep, and
    nothing that claims to be a stored value (S-82).

    The decoder keeps the last of two keys that are the same, and rounds long numbers.
    Where the text has as many colons as the value has keys, and no long row of digits,
    it did neither; only other texts are read a second time.
    """
    _check_containers(body)
    try:
        value = msgspec.json.decode(body)
        is_plain = body.count(b":") == _count_keys(value)
        if not is_plain or b"0" * _LONGEST_NUMBER in body.translate(_DIGITS):
            json.loads(
                body,
                object_pairs_hook=_without_duplicates,
                parse_int=_whole,
                parse_float=_unread,
            )
    except RecursionError:
        raise _not_json(f"nested deeper than {DEEPEST} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    admit(value)
    return value


def _check_containers(body: bytes) -> None:
    """Before anything is made of them. Raises ``Problem``."""
    count = body.count(b"[") + body.count(b"{")
    if count <= MOST_CONTAINERS:
        return
    for text in _TEXT.finditer(body):  # brackets in texts are none
        count -= body.count(b"[", *text.span()) + body.count(b"{", *text.span())
    if count > MOST_CONTAINERS:
        reason = f"more than {MOST_CONTAINERS:,} lists and objects in one body"
        raise _not_json(f"{reason}; give large inputs as references")


def _without_duplicates(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key '{name[:80]}' is there twice")
            seen.add(name)
    return found


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"a number has {len(digits):,} digits")
    return 0


def _unread(digits: str) -> float:
    return 0.0


def _count_keys(value: JSON) -> int:
    """How many keys all objects in it have. Raises ``Problem`` if it is too deep."""
    level, keys = [value], 0
    for _ in range(DEEPEST):
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
    raise _not_json(f"nested deeper than {DEEPEST} levels")


def _not_json(reason: str) -> Problem:
    return Problem("json.invalid", f"the body cannot be read as JSON: {reason}")


def _convert(value: JSON, shape: type[T]) -> T:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise _not_fitting(error, shape) from None


def _not_fitting(error: msgspec.ValidationError, shape: type[Any]) -> Problem:
    message = f"the body does not fit: {error}"
    known = ", ".join(field.name for field in msgspec.structs.fields(shape))
    hint = f"the members of the body are: {known}" if known else "send no body"
    if "unknown field" in message:
        return Problem("request.unknown_field", message, hint=hint)
    return Problem("request.invalid", message, hint=hint)
