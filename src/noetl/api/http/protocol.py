"""HTTP protocol of the server: uvicorn's, with limits of time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noetl.api.http.quotas import Connections
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
MAX_BUFFERED_BYTES = 64 * 1024
"""Bytes of an answer from which it is sent without buffering."""
_GONE = "noetl.is_gone"


def gone_check(scope: Scope) -> Callable[[], bool]:
    """Return a function that returns True once the client has disconnected."""
    check: Callable[[], bool] = scope.get(_GONE, lambda: False)
    return check


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

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class TooMuch(Exception):
    """A head that is too large, or too many pipelined requests."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose head is late or too large, and those whose client does
    not read the answer."""

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
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # the request was refused
        self._size += len(data)
        super().data_received(data)
        if self._in_head and self._timer is None:
            self._wait()  # most heads arrive at once and need no timer
        elif not self._in_head:
            self._stop()
        # Neither a complete head nor a part of a body: the beginning of a head, or
        # endless trailers.
        if self._size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

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
