"""A TCP proxy between two parts of a cluster that cuts, delays and swallows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, Literal

Direction = Literal["there", "back"]
CHUNK = 65536


class Link:
    """The way from one part to another, on a port of its own.

    Whole: all bytes pass. ``cut``: nothing passes, connections hang and new ones do not
    come about, as if packets were lost; after ``heal`` the hanging ones are reset, like
    those that the other side has given up. ``silent``: the bytes of one direction are
    lost. ``delay``: bytes arrive later. ``loss``: every n-th piece resets its
    connection, as a link does that loses too much.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.is_cut = self.swallows = False
        self.silent: Direction | None = None
        self.delay = 0.0
        self.loss = 0
        self.harmed = 0
        self._pieces = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._over = asyncio.Event()
        ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        self._loop = ready.result()

    def _run(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            asyncio.run(self._listen(ready))
        except Exception as error:
            ready.set_exception(error)

    async def _listen(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        async with AsyncExitStack() as stack:
            await self._prepare(stack)
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            stack.callback(server.close)
            self.port = server.sockets[0].getsockname()[1]
            ready.set_result(asyncio.get_running_loop())
            await self._over.wait()
            self._reset()

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Make ready what lies between both ends."""

    def cut(self, *, is_cut: bool = True) -> None:
        self.is_cut = self.swallows = is_cut

    def silence(self, direction: Direction) -> None:
        self.silent = direction

    def slow_down(self, seconds: float) -> None:
        self.delay = seconds

    def lose_some(self) -> None:
        self.loss = 3

    def heal(self) -> None:
        """Let everything pass again; what hung in a cut is reset."""
        was_broken = self.is_cut or self.silent is not None
        self.cut(is_cut=False)
        self.silent, self.delay, self.loss = None, 0.0, 0
        if was_broken:
            self._do(self._reset)

    def close(self) -> None:
        self._do(self._over.set)
        self._thread.join()

    def _do(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    def _reset(self) -> None:
        for writer in [*self._open]:
            writer.transport.abort()
        self._open.clear()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._join(reader, writer, self._dial)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self.swallows:  # the handshake does not come about
            self.harmed += 1
            await asyncio.sleep(0.1)
        return await asyncio.open_connection("127.0.0.1", self.target)

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        dial: Callable[[], Awaitable[tuple[Any, asyncio.StreamWriter]]],
    ) -> None:
        """Pass bytes between a connection and one that ``dial`` makes."""
        self._open.add(writer)
        far = None
        try:
            back, far = await dial()
            self._open.add(far)
            await asyncio.gather(
                self._pass(reader, far, "there"), self._pass(back, writer, "back")
            )
        except OSError:
            pass  # one of the two has gone
        finally:
            for each in (writer, far):
                if each is not None:
                    self._open.discard(each)
                    each.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
    ) -> None:
        while piece := await reader.read(CHUNK):
            self._pieces += 1
            if self.swallows or self.silent == direction:
                self.harmed += 1
                continue  # lost; the connection is reset in the end
            if self.loss and self._pieces % self.loss == 0:
                self.harmed += 1
                raise ConnectionResetError
            if self.delay:
                self.harmed += 1
                await asyncio.sleep(self.delay)
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
