"""HTTP request: method, URL, headers and body."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import re
import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from yarl import URL

import noetl
from noetl.adapters.files import Files, Roots
from noetl.adapters.network.network import plain_host
from noetl.dsl.times import parse_duration
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.telemetry.trace_context import HEADER
from noetl.types import JSON

MAX_BYTES = 64 * 1024 * 1024
_OCTETS = "application/octet-stream"


def read_files(files: JSON, roots: Roots) -> tuple[bytes, str]:
    """Return the body and its content type.

    A part is its text, or ``{content | base64 | path, filename, content_type}``.
    """
    if not isinstance(files, Mapping):
        raise ToolError("tool.contract", "files must be a mapping")
    boundary = f"noetl-{secrets.token_hex(16)}"
    lines: list[bytes] = []
    size = 0
    for name, part in files.items():
        content, filename, kind = read_part(str(name), part, roots)
        size += len(content)
        if size > MAX_BYTES:
            raise ToolError(
                "http.too_large", f"files are larger than {MAX_BYTES} bytes"
            )
        about = f'form-data; name="{quote(str(name))}"; filename="{quote(filename)}"'
        head = f"--{boundary}\r\nContent-Disposition: {about}\r\nContent-Type: {kind}"
        lines += [f"{head}\r\n\r\n".encode(), content, b"\r\n"]
    lines.append(f"--{boundary}--\r\n".encode())
    return b"".join(lines), f"multipart/form-data; boundary={boundary}"


def read_part(name: str, part: JSON, roots: Roots) -> tuple[bytes, str, str]:
    if isinstance(part, str):
        return part.encode(), name, "text/plain; charset=utf-8"
    if not isinstance(part, Mapping):
        raise ToolError("tool.contract", f"files.{name} must be text or a mapping")
    given = [key for key in ("content", "base64", "path") if part.get(key) is not None]
    if len(given) != 1 or not isinstance(part[given[0]], str):
        message = f"files.{name} needs one text: content, base64 or path"
        raise ToolError("tool.contract", message)
    text = part[given[0]]
    if given[0] == "path":
        content, filename = read_file(name, text, roots), os.path.basename(text)
    else:
        content, filename = decode(name, text, given[0]), name
    filename = str(part.get("filename") or filename)
    kind = part.get("content_type") or mimetypes.guess_type(filename)[0] or _OCTETS
    if "\r" in str(kind) or "\n" in str(kind):
        raise ToolError("http.header", f"files.{name}.content_type has a line break")
    return content, filename, str(kind)


def decode(name: str, text: str, how: str) -> bytes:
    if how == "content":
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ToolError("tool.contract", f"files.{name}.base64: {error}") from None


def read_file(name: str, path: str, roots: Roots) -> bytes:
    """Read a file below the folders that tools may use."""
    where = f"files.{name}.path"
    with roots.open_file(path, where) as opened:
        try:
            return opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise ToolError("tool.contract", f"{where}: {error.strerror}") from None


def quote(text: str) -> str:
    """Escape characters that could end the quoted name, as browsers do."""
    for character, escape in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, escape)
    return text


_DEFAULTS = {
    "User-Agent": f"noetl/{noetl.__version__}",
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
}
BODIES = ("json", "data", "body", "files")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FORM = "application/x-www-form-urlencoded"
_TOKENS = ("token", "access_token", "value")
# Set by the client from the body; other values would allow request smuggling.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})


class Request(msgspec.Struct):
    """Request of one hop; a redirect derives the next one from it."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None = None
    secret: frozenset[str] = frozenset()  # headers for the first host only


def read_request(call: ToolCall, host: Files) -> Request:
    """Read the request from the inputs. Raises ``ToolError`` for invalid ones."""
    inputs = call.inputs
    method = str(inputs.get("method") or "GET").upper()
    if not _TOKEN.match(method):
        raise ToolError("http.header", f"{method!r:.40} is not a valid method")
    url = read_url(inputs)
    headers = dict(_DEFAULTS)
    if call.traceparent is not None:
        headers[HEADER] = call.traceparent
    for name, value in read_headers(inputs.get("headers")).items():
        put(headers, name, value)
    secret = {"authorization", "cookie", "proxy-authorization", "x-api-key"}
    credential = read_auth(inputs.get("auth"))
    if credential is None and url.user is not None:
        credential = ("Authorization", basic(url.user, url.password or ""))
    if credential is not None:
        name, value = credential
        secret.add(name.lower())
        put(headers, name, checked(name, value))
    body, content_type = read_body(call, host)
    if content_type is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = content_type
    return Request(method, url.with_user(None), headers, body, frozenset(secret))


def read_url(inputs: Mapping[str, JSON]) -> URL:
    given = [inputs[name] for name in ("url", "endpoint") if inputs.get(name)]
    if len(given) != 1:
        raise ToolError("tool.contract", "give either 'url' or 'endpoint'")
    url = parse_url(str(given[0]))
    params = inputs.get("params")
    if params is None:
        return url
    if not isinstance(params, Mapping):
        raise ToolError("tool.contract", "params must be a mapping")
    return url.extend_query(pairs(params))


def parse_url(text: str, base: URL | None = None) -> URL:
    """Parse an absolute http or https URL. Raises ``ToolError`` for any other."""
    if _CONTROL.search(text):
        raise ToolError("http.header", "the url has a line break or control character")
    try:
        url = URL(text.strip())
        if base is not None:
            url = base.join(url)
        host, port = url.host, url.port
    except ValueError as error:
        raise ToolError("http.url", f"the url is not valid: {error}") from None
    if url.scheme not in ("http", "https"):
        shown = url.scheme or "none"
        raise ToolError("http.scheme", f"the url must be http or https, not {shown}")
    if not host or port == 0:
        raise ToolError("http.url", "the url has no host")
    plain = plain_host(host)
    return url if plain == host else url.with_host(plain)


def pairs(values: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """Return pairs of name and value; a list repeats its name, null is left out."""
    found = []
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                found.append((str(name), as_text(each)))
    return found


def read_headers(given: JSON) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ToolError("tool.contract", "headers must be a mapping")
    headers: dict[str, str] = {}
    for name, value in given.items():
        if value is None or str(name).lower() in _FRAMING:
            continue
        if not _TOKEN.match(str(name)):
            raise ToolError("http.header", f"{name!r:.80} is not a valid header name")
        put(headers, str(name), checked(str(name), as_text(value)))
    return headers


def put(headers: dict[str, str], name: str, value: str) -> None:
    for other in [each for each in headers if each.lower() == name.lower()]:
        del headers[other]
    headers[name] = value


def checked(name: str, value: str) -> str:
    # The messages do not quote the value, which may be secret.
    if _CONTROL.search(value.replace("\t", " ")):
        message = f"header '{name}' has a line break or control character"
        raise ToolError("http.header", message)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        message = f"header '{name}' has half a surrogate pair, which is not UTF-8"
        raise ToolError("http.header", message) from None
    return value


def read_auth(auth: JSON) -> tuple[str, str] | None:
    """Return the header for a credential: ``{type: bearer|basic|header, …}``.

    The type of a credential of the keychain is derived from its fields.
    """
    if auth is None:
        return None
    if not isinstance(auth, Mapping):
        message = (
            "auth must be a mapping such as {type: bearer, …}, or name an entry that "
            "the playbook declares under keychain"
        )
        raise ToolError("auth", message)
    match auth.get("type") or type_of(auth):
        case "bearer":
            return "Authorization", f"Bearer {member(auth, *_TOKENS)}"
        case "basic":
            user = member(auth, "username", "user")
            return "Authorization", basic(user, member(auth, "password"))
        case "header":
            name = member(auth, "name")
            if not _TOKEN.match(name):
                message = f"{name!r:.80} is not a valid header name"
                raise ToolError("http.header", message)
            return name, member(auth, "value")
        case None:
            names = ", ".join(map(str, auth))
            message = f"auth has the fields {names}, but needs a token or a password"
            raise ToolError("auth", message)
        case other:
            message = f"auth.type is {other!r:.40}, not bearer, basic, header or oauth2"
            raise ToolError("auth", message)


def type_of(auth: Mapping[str, JSON]) -> str | None:
    """Derive the type: ``value`` is a token, unless there is a header's ``name``."""
    if auth.get("password") is not None:
        return "basic"
    if auth.get("name") is not None:
        return "header"
    return "bearer" if any(auth.get(name) is not None for name in _TOKENS) else None


def member(auth: Mapping[str, JSON], *names: str) -> str:
    """Return the first of these fields that exists. Raises ``ToolError``."""
    for name in names:
        if auth.get(name) is not None:
            return as_text(auth[name])
    raise ToolError("auth", f"auth of type {auth.get('type')} needs '{names[0]}'")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def read_body(call: ToolCall, host: Files) -> tuple[bytes | None, str | None]:
    """Return the body and its content type."""
    given = [name for name in BODIES if call.inputs.get(name) is not None]
    if len(given) > 1:
        message = f"give one body, not {' and '.join(given)}"
        raise ToolError("tool.contract", message)
    if not given:
        return None, None
    value = call.inputs[given[0]]
    match given[0]:
        case "files":
            return read_files(value, host.roots(call.folder))
        case "data" if isinstance(value, Mapping):
            return urlencode(pairs(value)).encode(), _FORM
        case "data" if isinstance(value, str):
            return value.encode(), _FORM
        case "body" if isinstance(value, str):
            return value.encode(), "text/plain; charset=utf-8"
        case _:
            return msgspec.json.encode(value), "application/json"


def as_text(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds; None means none. ``total`` includes all redirects."""

    connect: float | None = 10.0
    read: float | None = 60.0
    total: float | None = 300.0


def read_timeouts(spec: Mapping[str, JSON]) -> Timeouts:
    value = spec.get("timeout")
    if value is None:
        return Timeouts()
    if not isinstance(value, Mapping):
        return Timeouts(total=_seconds(value, ""))
    unknown = value.keys() - {"connect", "read", "total"}
    if unknown:
        message = f"spec.timeout: unknown phase '{min(unknown)}'"
        raise ToolError("tool.contract", f"{message} (connect, read, total)")
    return Timeouts(**{phase: _seconds(part, phase) for phase, part in value.items()})


def _seconds(value: JSON, phase: str) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        where = f"spec.timeout.{phase}".rstrip(".")
        raise ToolError("tool.contract", f"{where}: {error}") from None
