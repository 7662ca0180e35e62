"""HTTP as we speak it: uvicorn's, with bounds on how long and large a head may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_WITHIN = 15.0
"""Seconds in which the head of a request must be here (row 58)."""
LARGEST_HEAD = 64 * 1024
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


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections on which a head does not come to its end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joined: Any = Joined(transport, self.loop)
        super().connection_made(joined)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope[_GONE] = self.transport.is_closing
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        scope: Any = self.scope
        scope[_WHOLE] = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            self._stop()
            return
        if self._timer is None:  # most heads come at once, and need none
            self._wait()
        self._size += len(data)
        if self._size > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_WITHIN, self._close)

    def _stop(self) -> None:
        self._size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
