"""Bodies of requests: bounded before they are read, strict when they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from noetl.api.problems import Problem
from noetl.api.protocol import is_whole
from noetl.runtime import wire
from noetl.types import JSON

T = TypeVar("T", bound=msgspec.Struct)

LARGEST = 4 * 1024 * 1024
"""Bytes of a request (RELIABILITY 4.4)."""
IGNORED = 8 * LARGEST
"""Bytes that are read and thrown away, so that who sends too much is told so."""
SMALL = 64 * 1024
PATIENCE = 30.0
"""Seconds in which a body must be here."""
DEEPEST = 100
STREAMED = ("request.aborted", "request.timeout", "request.too_large")
"""What may go wrong with a body that is read in parts."""
_LONGEST_NUMBER = 64
_CLOSE = {"Connection": "close"}


async def read_body(request: Request, shape: type[T]) -> T:
    """The body as this type. Raises ``Problem``."""
    body = await read_bytes(request, LARGEST)
    if not body and not required_fields(shape):
        return shape()
    if issubclass(shape, wire.Message):
        _check_type(request)
        return read_message(body, shape)
    return _convert(await read_json(request, body), shape)


async def read_json(request: Request, body: bytes) -> JSON:
    """What these bytes of the request say. Raises ``Problem``."""
    _check_type(request)
    if len(body) > SMALL:  # others are served meanwhile
        return await asyncio.to_thread(decode, body)
    return decode(body)


def read_message(body: bytes, shape: type[T]) -> T:
    """What workers say, in one go: programs write it, thousands of facts a second, and
    the types say more than a second look at the text could."""
    try:
        message = msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise _not_fitting(error, shape) from None
    except RecursionError:
        raise _not_json(f"nested deeper than {DEEPEST} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    if isinstance(message, wire.Reports):
        _check_depth([fact.payload for each in message.reports for fact in each.facts])
    return message


async def read_parts(request: Request, announced: int) -> AsyncIterator[bytes]:
    """A body of bytes as it comes, of which none may be late. Raises ``Problem``."""
    size, parts = 0, request.stream()
    while True:
        try:
            async with asyncio.timeout(PATIENCE):
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


async def read_bytes(request: Request, largest: int) -> bytes:
    """The body, if it has no more bytes than this. Raises ``Problem``."""
    if is_whole(request.scope):
        message = await request.receive()
        if message["type"] != "http.request":
            raise _aborted()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(body) > largest:
                raise _too_large(largest)
            return body
        return await _read_on(request, largest, body)
    return await _read_on(request, largest)


async def _read_on(request: Request, largest: int, first: bytes = b"") -> bytes:
    """What does not come at once, within some time."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > IGNORED:
        raise _too_large(largest)
    parts = [first]
    size = len(first)
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > IGNORED:
                    break
                if size <= largest:
                    parts.append(part)
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
    """Strict JSON: no NaN, no duplicate keys, no half surrogates, nothing too deep."""
    try:
        value = msgspec.json.decode(body)
        json.loads(body, object_pairs_hook=_without_duplicates, parse_int=_whole)
    except RecursionError:
        raise _not_json(f"nested deeper than {DEEPEST} levels") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise _not_json(str(error)) from None
    _check_depth(value)
    return value


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
    return int(digits)


def _check_depth(value: JSON) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
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
