"""HTTP client: sends a request, follows redirects, returns the outcome."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from noetl.adapters.files import Files
from noetl.adapters.network import Network
from noetl.adapters.network.web import check_literal, find_blocked, open_session
from noetl.adapters.tools.http.request import (
    Request,
    Timeouts,
    parse_url,
    read_request,
    read_timeouts,
)
from noetl.adapters.tools.http.response import (
    MAX_BYTES,
    MAX_REDIRECTS,
    SHOWN,
    TooLarge,
    decode,
    next_request,
    read_body,
    read_start,
    shown_body,
    shown_headers,
)
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.types import JSON

_TOO_MUCH = re.compile("Too many headers|Got more than")  # messages of aiohttp
_RETRYABLE = frozenset({408, 425, 429})


class Seen(msgspec.Struct):
    """Members of ``outcome.http`` that are known so far."""

    url: str
    started: float
    status: int | None = None
    headers: dict[str, JSON] | None = None
    request_id: str | None = None

    def helper(self) -> dict[str, JSON]:
        elapsed = (time.perf_counter() - self.started) * 1000
        return {
            "status": self.status,
            "headers": self.headers,
            "request_id": self.request_id,
            "url": self.url,
            "elapsed_ms": round(elapsed, 3),
        }


class Client:
    """Keeps one session for each limit of connections, without cookies or proxies."""

    def __init__(self, network: Network, files: Files) -> None:
        self._network = network
        self._files = files
        self._sessions: dict[int, aiohttp.ClientSession] = {}

    async def call(self, call: ToolCall) -> Outcome:
        # On a thread, since files are read from disk.
        has_files = call.inputs.get("files") is not None
        request = (
            read_request(call, self._files)
            if not has_files
            else await asyncio.to_thread(read_request, call, self._files)
        )
        timeouts = read_timeouts(call.spec)
        accepted = read_statuses(call.spec)
        seen = Seen(str(request.url), time.perf_counter())
        try:
            async with asyncio.timeout(timeouts.total):
                return await self._follow(call, request, timeouts, accepted, seen)
        except (ToolError, TimeoutError, OSError, aiohttp.ClientError) as error:
            raised = explain(error, request, timeouts)
            raised.helper.update(seen.helper())
            raise raised from None

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _follow(
        self,
        call: ToolCall,
        request: Request,
        timeouts: Timeouts,
        accepted: frozenset[int] | None,
        seen: Seen,
    ) -> Outcome:
        follows = call.spec.get("follow_redirects", True)
        options = self._options(call.spec, timeouts)
        session = self._session(call.spec)
        for _ in range(MAX_REDIRECTS + 1):
            seen.url = str(request.url)
            await self._check(request.url, options["proxy"])
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                **options,
            ) as response:
                seen.status = response.status
                seen.headers = shown_headers(response.headers)
                seen.request_id = seen.headers.get("x-request-id")
                following = None
                if follows:
                    following = next_request(request, response.status, response.headers)
                if following is None:
                    return await answer(response, accepted, seen)
                request = following
        raise ToolError("http.redirects", f"more than {MAX_REDIRECTS} redirects")

    async def _check(self, url: URL, proxy: URL | None) -> None:
        """Check literal addresses, and names that a proxy resolves."""
        if proxy is not None:
            await self._network.check_remote(url.raw_host or "", url.port or 0)
        first = proxy or url
        await check_literal(self._network, first.raw_host or "", first.port or 0)

    def _options(self, spec: Mapping[str, JSON], timeouts: Timeouts) -> dict[str, Any]:
        proxy = spec.get("proxy")
        return {
            "allow_redirects": False,
            "proxy": parse_url(str(proxy)) if proxy else None,
            "ssl": bool(spec.get("verify", True)),
            "timeout": aiohttp.ClientTimeout(
                total=None,
                sock_connect=timeouts.connect,
                sock_read=timeouts.read,
            ),
        }

    def _session(self, spec: Mapping[str, JSON]) -> aiohttp.ClientSession:
        connections = int(spec.get("connections") or 0)
        session = self._sessions.get(connections)
        if session is None:
            session = open_session(
                self._network, connections=connections, auto_decompress=False
            )
            self._sessions[connections] = session
        return session


async def answer(
    response: aiohttp.ClientResponse, accepted: frozenset[int] | None, seen: Seen
) -> Outcome:
    """Return the outcome of the last response. Raises ``ToolError``."""
    status = response.status
    kind = response.headers.get("Content-Type", "")
    charset = response.charset
    if status >= 400 if accepted is None else status not in accepted:
        try:
            body = await read_start(response, SHOWN)
        except (TooLarge, ToolError, aiohttp.ClientError):
            body = b""  # the status is reported without it
        raise refused(status, response, shown_body(body, kind, charset))
    try:
        body = await read_body(response, MAX_BYTES)
    except TooLarge:
        message = f"the response is larger than {MAX_BYTES} bytes, or grows too fast"
        raise ToolError("http.too_large", message) from None
    if not body and (response.method == "HEAD" or status in (204, 205, 304)):
        return Outcome.ok(None, **seen.helper())
    return Outcome.ok(decode(body, kind, charset), **seen.helper())


def refused(status: int, response: aiohttp.ClientResponse, body: JSON) -> ToolError:
    reason = f" {response.reason}" if response.reason else ""
    # The path helps to find the call; the query may contain secrets.
    message = f"{status}{reason} from {address_of(response.url)}{response.url.path}"
    if status >= 500:
        kind = "http.server"
    elif status >= 400:
        kind = "http.client"
    else:
        kind = "http.status"
        message += ", which is not in spec.ok_status"
    retryable = status in _RETRYABLE or status >= 500
    return ToolError(kind, message, retryable=retryable, details={"body": body})


def read_statuses(spec: Mapping[str, JSON]) -> frozenset[int] | None:
    given = spec.get("ok_status")
    if given is None:
        return None
    try:
        return frozenset(
            int(each) for each in (given if isinstance(given, list) else [given])
        )
    except (TypeError, ValueError):
        message = f"spec.ok_status must be a status or a list, found {given!r:.40}"
        raise ToolError("tool.contract", message) from None


def address_of(url: URL) -> str:
    """Return the host, with the port unless it is that of the scheme."""
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host or ""
    return host if url.is_default_port() else f"{host}:{url.port}"


def explain(error: Exception, request: Request, timeouts: Timeouts) -> ToolError:
    """Translate an error to an error kind."""
    if isinstance(error, ToolError):
        return error
    blocked = find_blocked(error)
    if blocked is not None:
        return ToolError("http.blocked_address", str(blocked))
    host = address_of(request.url)
    match error:
        case aiohttp.ConnectionTimeoutError():
            message = f"no connection to {host} after {timeouts.connect:g} s"
            return ToolError("timeout", message, retryable=True)
        case aiohttp.SocketTimeoutError():
            message = f"no data from {host} for {timeouts.read:g} s"
            return ToolError("timeout", message, retryable=True)
        case TimeoutError():
            message = f"no complete answer from {host} after {timeouts.total:g} s"
            return ToolError("timeout", message, retryable=True)
        case aiohttp.ClientSSLError():
            return ToolError("http.tls", f"TLS to {host} failed: {error}")
        case aiohttp.InvalidURL():
            return ToolError("http.url", f"the url is not valid: {error.description}")
        case aiohttp.ClientResponseError() if _TOO_MUCH.match(error.message):
            return ToolError("http.too_large", f"the headers of {host} are too large")
        case aiohttp.ClientResponseError():
            message = f"{host} sent invalid HTTP: {error.message[:200]}"
            return ToolError("connection", message, retryable=True)
        case aiohttp.ClientConnectorDNSError():
            message = f"no host is known by the name '{request.url.host}'"
            return ToolError("connection", message, retryable=True)
        case aiohttp.ClientConnectorError():
            where = f"{request.url.host}:{request.url.port}"
            why = os.strerror(error.os_error.errno) if error.os_error.errno else error
            message = f"no connection to {where}: {str(why)[:200].lower()}"
            return ToolError("connection", message, retryable=True)
        case _:
            message = f"{host}: {str(error)[:500] or type(error).__name__}"
            return ToolError("connection", message, retryable=True)
