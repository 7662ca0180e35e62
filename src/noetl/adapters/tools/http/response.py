"""HTTP response: read up to a limit, decompressed, as JSON or text."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from yarl import URL

from noetl.adapters.tools.http.request import Request, parse_url
from noetl.errors import ToolError
from noetl.types import JSON

if TYPE_CHECKING:
    from aiohttp import ClientResponse

MAX_BYTES = 10 * 1024 * 1024
SHOWN = 8 * 1024
_CHUNK = 65536
_MAX_RATIO = 100  # a larger ratio of a large body is taken for a zip bomb
_LARGE = 1024 * 1024
_MASKED = frozenset({"authorization", "cookie", "set-cookie", "x-api-key"})
_HEADER = 4096
# Text encodings of Python that are not charsets, or unsafe for untrusted text.
_NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"}
)


class TooLarge(Exception):
    """The body is larger than the limit."""


async def read_body(response: ClientResponse, limit: int) -> bytes:
    """Read the decompressed body. Raises ``TooLarge`` without reading the rest."""
    announced = response.content_length
    if announced is not None and announced > limit:
        raise TooLarge
    body = await read_start(response, limit)
    if len(body) > limit:
        raise TooLarge
    return body


async def read_start(response: ClientResponse, limit: int) -> bytes:
    """Read the body up to the limit, and one byte more if there is more."""
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
    """Decompresses up to a limit. Raises ``TooLarge`` for a zip bomb."""

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            message = (
                f"the response is encoded as {encoding!r:.40}, not gzip or deflate"
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
        # Some servers send a raw stream as "deflate".
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        self._given = 0
        try:
            return self._inflate(chunk)
        except zlib.error as error:
            raise corrupt(str(error)) from None

    def end(self) -> None:
        if self._taken and not self._engine.eof:
            raise corrupt("it is not complete")

    def _inflate(self, chunk: bytes) -> bytes:
        found = bytearray()
        while chunk and self._given <= self._limit:
            data = self._engine.decompress(chunk, _CHUNK)
            found += data
            self._given += len(data)
            if self._given > max(_LARGE, self._taken * _MAX_RATIO):
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
    """Decode JSON by its content type, else text. Raises ``ToolError``."""
    if not is_json(content_type):
        return decode_text(body, charset)
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(unmarked(body, charset))
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the content type is JSON, but the body is not: {error}"
        details = {"body": decode_text(body[:SHOWN], charset)}
        raise ToolError("http.decode", message, details=details) from None


def unmarked(body: bytes, charset: str | None) -> bytes:
    """Return the body as UTF-8 without a mark, converted from another charset."""
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
    """Return the body of an error: parsed if it is complete JSON, else its start."""
    if len(body) <= SHOWN and is_json(content_type):
        try:
            return decode(body, content_type, charset)
        except ToolError:
            pass
    return decode_text(body[:SHOWN], charset)


def shown_headers(headers: Mapping[str, str]) -> dict[str, JSON]:
    """Return headers in lower case, repeated ones joined, secrets masked."""
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
    """Replace surrogates, by which aiohttp keeps bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})


def next_request(
    request: Request, status: int, headers: Mapping[str, str]
) -> Request | None:
    """Return the request that follows a redirect; None for another response."""
    location = headers.get("Location")
    if status not in _REDIRECTS or not location:
        return None
    url = parse_url(location, base=request.url).with_user(None)
    method, body, kept = request.method, request.body, dict(request.headers)
    if method != "HEAD" and (status == 303 or (status < 303 and method == "POST")):
        method, body = "GET", None
        kept = without(kept, _BODY_HEADERS)
    if not is_same_party(request.url, url):
        kept = without(kept, request.secret)
        kept = without(kept, frozenset({"host"}))
    return Request(method, url, kept, body, request.secret)


def is_same_party(old: URL, new: URL) -> bool:
    """Return whether credentials may be sent: the same origin, or its https."""
    if old.host != new.host:
        return False
    if (old.scheme, old.port) == (new.scheme, new.port):
        return True
    return (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)


def without(headers: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}
