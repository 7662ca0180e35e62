"""HTTP protocol of the server: uvicorn's, with limits of time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from noetl.api.http.quotas import Connections
from noetl.api.http.repeated_heads import KnownHead, learn, offer, repeat
from noetl.api.http.request_body import WHOLE

HEAD_TIMEOUT_S = 15.0
"""Seconds within which the head of a request must arrive (row 58)."""
SEND_TIMEOUT_S = 30.0
"""Seconds within which a client must read a part of a waiting answer."""
MAX_HEAD_BYTES = 16 * 1024
MAX_TARGET_BYTES = 8 * 1024
"""Bytes of a path with its query; ``MAX_HEAD_BYTES`` limits all headers."""
MAX_PIPELINED = 16
"""Pipelined requests on one connection that wait for an answer."""
MAX_LEARNED = 8
"""Heads in a row that a connection learns without a repetition of any."""
MAX_BUFFERED_BYTES = 64 * 1024
"""Bytes of an answer from which it is sent without buffering."""
_GONE = "noetl.is_gone"
_SEND = "noetl.send_whole"

SendWhole = Callable[[int, bytes, bytes], Awaitable[None]]
"""Sends an answer: its status, the lines of its head but for the length, its body."""


def gone_check(scope: Scope) -> Callable[[], bool]:
    """Return a function that returns True once the client has disconnected."""
    check: Callable[[], bool] = scope.get(_GONE, lambda: False)
    return check


def head_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the lines of these headers, without that of the length. Raises
    ``ValueError`` for one that would end its line."""
    parts: list[bytes] = []
    for name, value in headers:
        if HEADER_VALUE_RE.search(value):
            raise ValueError(f"the value of the header {name!r} is not one line")
        if name != b"content-length":
            parts += name, b": ", value, b"\r\n"
    return b"".join(parts)


def whole_sender(scope: Scope) -> SendWhole | None:
    """Return the function that sends an answer at once, if the request has one."""
    return scope.get(_SEND)


class Joined:
    """A transport that sends the head and the body of an answer in one system call;
    separate calls would also wake the client twice."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > MAX_BUFFERED_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._parts:
            parts, self._parts, self._size = self._parts, [], 0
            self._transport.writelines(parts)

    def send(self, data: bytes) -> None:
        """Write now, after what is buffered."""
        self.flush()
        self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class TooMuch(Exception):
    """A head that is too large, or too many pipelined requests."""


class WholeCycle(RequestResponseCycle):
    """A request whose body has arrived, and whose answer may be sent at once."""

    async def send_whole(self, status: int, head: bytes, body: bytes) -> None:
        """Send an answer with these lines in its head."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        parts = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            parts += name, b": ", value, b"\r\n"
        parts.append(head)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"content-length: %d\r\n\r\n" % len(body))
        parts.append(body)
        self.response_started = self.response_complete = True
        transport: Any = self.transport
        transport.send(b"".join(parts))
        self.message_event.set()
        if not self.keep_alive:
            transport.close()
        self.on_response()


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose head is late or too large, and those whose client does
    not read the answer. A request that repeats a known head is not parsed."""

    def __init__(self, *args: Any, admission: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._admission = admission
        self._address = ""
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._refusal: str | None = None
        self._in_head = True
        self._size = 0
        self._head = 0
        self._begun = 0
        self._is_between = True
        self._known: KnownHead | None = None
        self._learned = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joined: Any = Joined(transport, self.loop)
        super().connection_made(joined)
        self._address = self.client[0] if self.client else ""
        if not self._admission.admit(self, self._address):
            transport.write(_FULL)
            transport.close()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self.resume_writing()
        self._admission.forget(self, self._address)
        super().connection_lost(exc)

    def is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def drop(self) -> None:
        self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope[_GONE] = self.transport.is_closing
        self._in_head = True
        self._head = 0
        self._begun += 1
        self._is_between = False

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._refuse("The address of the request is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers, which follow a body: the request was authorized by its head,
        and a proxy may have checked the head alone."""
        if not self._in_head:
            return
        self._head += len(name) + len(value)
        if self._head > MAX_HEAD_BYTES:
            self._refuse("The head of the request is too large.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse("Too many requests wait on this connection.")
        self._in_head = False
        self._size = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        scope: Any = self.scope
        scope[WHOLE] = True
        self._is_between = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # the request was refused
        is_between, begun = self._is_between, self._begun
        if is_between and self._known is not None and self._repeats(data):
            return
        self._size += len(data)
        super().data_received(data)
        if is_between and self._is_between and self._begun == begun + 1:
            scope: Any = self.scope
            offer(scope, partial(self._remember, data, scope))
        if self._in_head and self._timer is None:
            self._wait()  # most heads arrive at once and need no timer
        elif not self._in_head:
            self._stop()
        # Neither a complete head nor a part of a body: the beginning of a head, or
        # endless trailers.
        if self._size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _remember(self, data: bytes, scope: Scope, checked: Any) -> None:
        if self._learned < MAX_LEARNED:
            self._learned += 1
            self._known = learn(data, scope, checked)

    def _repeats(self, data: bytes) -> bool:
        """Begin a request that repeats the known head, if nothing else is open on the
        connection; return whether the data is one."""
        known, last = self._known, self.cycle
        if known is None or not (last.response_complete and last.keep_alive):
            return False
        body = known.body_of(data)
        if body is None:
            return False
        self._learned = 0
        self._unset_keepalive_if_required()
        scope: Any = known.scope_with(len(body))
        self.scope = scope
        cycle = WholeCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        cycle.body, cycle.more_body = bytearray(body), False
        cycle.message_event.set()
        scope[_GONE], scope[_SEND] = self.transport.is_closing, cycle.send_whole
        scope[WHOLE] = True
        repeat(scope, known.checked)
        self.cycle = cycle
        self._start_asgi_task(cycle, self.app)
        return True

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._refusal or msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_TIMEOUT_S, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        raise TooMuch(reason)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


_REASON = b"Too many connections are open; try again.\n"
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n%s"
) % (len(_REASON), _REASON)
