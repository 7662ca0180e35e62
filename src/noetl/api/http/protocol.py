"""HTTP as we speak it: uvicorn's, with bounds on how long and large a head may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noetl.api.connections import Connections

HEAD_WITHIN = 15.0
"""Seconds in which the head of a request must be here (row 58)."""
SENT_WITHIN = 30.0
"""Seconds in which a client must take some of an answer that waits for it."""
LARGEST_HEAD = 16 * 1024
LARGEST_ADDRESS = 8 * 1024
"""Bytes of a path with its query; ``LARGEST_HEAD`` are those of all headers."""
MOST_QUEUED = 16
"""Requests on one connection that wait until those before them are answered."""
LARGEST_PART = 64 * 1024
"""Bytes of an answer from which it is sent without waiting for more of it."""
_GONE = "noetl.is_gone"
_WHOLE = "noetl.is_whole"


def gone_check(scope: Scope) -> Callable[[], bool]:
    """Tells whether whoever asked has hung up."""
    check: Callable[[], bool] = scope.get(_GONE, lambda: False)
    return check


def is_whole(scope: Scope) -> bool:
    """Whether the body is here already, to its end."""
    return _WHOLE in scope


class Joined:
    """A transport by which the head and the body of an answer go out together: each
    part on its own costs a call of the system, and wakes the other side."""

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
        if self._size > LARGEST_PART:
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
    """More of a head, or more requests at once, than are taken."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections on which a head does not come to its end, is too large, or
    whose client does not take what it asked for."""

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
        if len(self.url) > LARGEST_ADDRESS:
            self._refuse("The address of the request is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers, which follow a body, are ignored: the request was
        authorized by its head, and a proxy may have looked at the head alone."""
        if not self._in_head:
            return
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD:
            self._refuse("The head of the request is too large.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_QUEUED:
            self._refuse("Too many requests wait on this connection.")
        self._in_head = False
        self._size = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        scope: Any = self.scope
        scope[_WHOLE] = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # it was refused
        self._size += len(data)
        super().data_received(data)
        if self._in_head and self._timer is None:
            self._wait()  # most heads come at once, and need none
        elif not self._in_head:
            self._stop()
        # What is neither a head nor a body that goes on: the beginning of a head, or
        # trailers without an end.
        if self._size > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._refusal or msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(SENT_WITHIN, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        raise TooMuch(reason)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_WITHIN, self._close)

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
