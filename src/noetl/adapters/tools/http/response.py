"""What is read: so much and no more, decompressed, as JSON or text."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from noetl.errors import ToolError
from noetl.types import JSON

if TYPE_CHECKING:
    from aiohttp import ClientResponse

LARGEST = 10 * 1024 * 1024
SHOWN = 8 * 1024
_CHUNK = 65536
_RATIO = 100  # more than this is an attack, once it is also large
_LARGE = 1024 * 1024
_MASKED = frozenset({"authorization", "cookie", "set-cookie", "x-api-key"})
_HEADER = 4096
# Text encodings of Python that are no charsets, or take a hostile text badly.
_NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"}
)


class TooLarge(Exception):
    """More than the limit came, or would have."""


async def read_body(response: ClientResponse, limit: int) -> bytes:
    """The body, decompressed. Raises ``TooLarge`` without reading on."""
    announced = response.content_length
    if announced is not None and announced > limit:
        raise TooLarge
    body = await read_start(response, limit)
    if len(body) > limit:
        raise TooLarge
    return body


async def read_start(response: ClientResponse, limit: int) -> bytes:
    """The body up to the limit, and one byte more if there is more."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    inflater = None if encoding in ("", "identity") else Inflater(encoding, limit)
    body = bytearray()
    while len(body) <= limit:
        chunk = await response.content.read(_CHUNK)
        if not chunk:
            if inflater is not None:
                inflater.end()
            break
        body += chunk if inflater is None else inflater.feed(chunk)
    return bytes(body[: limit + 1])


class Inflater:
    """Inflates up to a limit, and refuses what grows out of all proportion."""

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            message = (
                f"the response is encoded as {encoding!r:.40}: nobody asked for it"
            )
            raise ToolError("http.decode", message)
        self._engine = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib
        self._limit = limit
        self._taken = 0
        self._given = 0

    def feed(self, chunk: bytes) -> bytes:
        first = self._taken == 0
        self._taken += len(chunk)
        try:
            return self._inflate(chunk)
        except zlib.error as error:
            if not first:
                raise corrupt(str(error)) from None
        # Some servers mean by "deflate" the bare stream.
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        self._given = 0
        try:
            return self._inflate(chunk)
        except zlib.error as error:
            raise corrupt(str(error)) from None

    def end(self) -> None:
        if self._taken and not self._engine.eof:
            raise corrupt("it ends too early")

    def _inflate(self, chunk: bytes) -> bytes:
        found = bytearray()
        while chunk and self._given <= self._limit:
            data = self._engine.decompress(chunk, _CHUNK)
            found += data
            self._given += len(data)
            if self._given > max(_LARGE, self._taken * _RATIO):
                raise TooLarge
            chunk = self._engine.unconsumed_tail
            if self._engine.eof and self._engine.unused_data:
                chunk = self._engine.unused_data  # another member of the same file
                self._engine = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return bytes(found)


def corrupt(why: str) -> ToolError:
    return ToolError("http.decode", f"the compressed response is corrupt: {why}")


def is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "text/json") or kind.endswith("+json")


def decode(body: bytes, content_type: str, charset: str | None) -> JSON:
    """JSON by its content type, else text. Raises ``ToolError`` for broken JSON."""
    if not is_json(content_type):
        return decode_text(body, charset)
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(unmarked(body, charset))
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the response says it is JSON and is not: {error}"
        details = {"body": decode_text(body[:SHOWN], charset)}
        raise ToolError("http.decode", message, details=details) from None


def unmarked(body: bytes, charset: str | None) -> bytes:
    """JSON is UTF-8, but some servers say, or mark, something else."""
    if charset is not None and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        return decode_text(body, charset).encode()
    return body.removeprefix(codecs.BOM_UTF8)


def decode_text(body: bytes, charset: str | None) -> str:
    try:
        known = codecs.lookup(charset or "utf-8").name
        if known in _NO_CHARSETS:
            known = "utf-8"
        return body.decode(known, errors="replace")
    except (LookupError, ValueError):
        return body.decode(errors="replace")


def shown_body(body: bytes, content_type: str, charset: str | None) -> JSON:
    """The body of an error status: parsed if it is whole and JSON, else its start."""
    if len(body) <= SHOWN and is_json(content_type):
        try:
            return decode(body, content_type, charset)
        except ToolError:
            pass
    return decode_text(body[:SHOWN], charset)


def shown_headers(headers: Mapping[str, str]) -> dict[str, JSON]:
    """For the outcome: names in lower case, repeated ones joined, secrets masked."""
    shown: dict[str, JSON] = {}
    for name, value in headers.items():
        key = name.lower()
        if key in _MASKED or key.startswith("proxy-"):
            shown[key] = "***"
        elif key in shown:
            shown[key] = f"{shown[key]}, {value}"[:_HEADER]
        else:
            shown[key] = clean(value)[:_HEADER]
    return shown


def clean(text: str) -> str:
    """Headers are bytes; aiohttp keeps odd ones as surrogates, which JSON cannot."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
