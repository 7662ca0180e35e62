"""One process that runs python calls, one after another, for one execution."""

from __future__ import annotations

import asyncio

import msgspec

from noetl.adapters.processes.channel import Channel
from noetl.adapters.processes.endings import describe_exit, exit_details
from noetl.adapters.processes.key import Key
from noetl.adapters.processes.launcher import Launcher, Order, Process
from noetl.adapters.processes.sandbox import sandboxed
from noetl.errors import ToolError
from noetl.types import JSON

_CLOSED, _NO_MEMORY = 71, 87  # exit codes of the child's own


class Fault(msgspec.Struct):
    kind: str
    message: str
    type: str | None = None
    line: int | None = None
    traceback: str | None = None
    exit_code: int | None = None


class Reply(msgspec.Struct):
    number: int
    result: JSON = None
    fault: Fault | None = None
    spent: bool = False


_decode = msgspec.json.Decoder(Reply).decode


class Runner:
    """``spent`` once it must not run another call: it died, or the code littered."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.spent = False
        self._channel = Channel(self._receive, self._lose)
        self._process: Process | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self._number = 0
        self._why = ""
        self._killed = False
        self._expired: float | None = None

    async def start(self, launcher: Launcher, environment: dict[str, str]) -> None:
        key = self.key
        try:
            order = Order(
                environment=environment,
                program=sandboxed(key.folder, environment) if key.sandbox else None,
                folder=key.folder,
                memory=key.memory,
                disk=key.disk,
            )
            self._process = await launcher.start(order, channel=self._channel.give())
        except BaseException:
            self._channel.close()
            raise
        self._process.exited.add_done_callback(self._end)

    async def call(self, request: dict[str, JSON], seconds: float | None) -> Reply:
        """Run it. Raises ``ToolError`` if the process ends or takes too long."""
        assert self._process is not None
        if self._process.exited.done():
            raise self._ending(self._process.exited.result())
        loop = asyncio.get_running_loop()
        self._number += 1
        self._reply = loop.create_future()
        body = msgspec.json.encode({"number": self._number, **request})
        timer = None
        if seconds is not None:
            timer = loop.call_later(seconds, self._expire, seconds)
        self._channel.send(body)
        try:
            return await self._reply
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            self._reply = None
            if timer is not None:
                timer.cancel()

    def output(self) -> tuple[str, str]:
        """What was printed since the last time.

        The process prints before it replies, so the loop has seen to both at once. Only
        an end can be faster than the loop.
        """
        assert self._process is not None
        stdout, stderr = self._process.stdout, self._process.stderr
        if self._process.exited.done():
            stdout.drain()
            stderr.drain()
        self.spent = self.spent or stdout.ended or stderr.ended
        return stdout.take(), stderr.take()

    async def stop(self) -> None:
        """End the process and all it started; nothing of it runs afterwards."""
        self.spent = True
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    def close(self) -> None:
        self._channel.close()
        if self._process is not None:
            self._process.close()

    def _receive(self, body: bytes) -> None:
        if self._why:
            return
        try:
            reply = _decode(body)
        except (msgspec.DecodeError, RecursionError):
            reply = None
        waiting = self._reply
        if reply is None or reply.number != self._number or waiting is None:
            self._lose("wrote into the channel to its worker", 0)
        elif not waiting.done():
            self.spent = self.spent or reply.spent
            waiting.set_result(reply)

    def _lose(self, why: str, grace: float) -> None:
        """Nothing more will come this way: if the process ends, that says more."""
        self.spent = True
        self._why = self._why or f"the process {why}"
        asyncio.get_running_loop().call_later(grace, self._give_up)

    def _give_up(self) -> None:
        if self._process is not None and not self._process.exited.done():
            self._killed = True
            self._process.kill()

    def _expire(self, seconds: float) -> None:
        self.spent = True
        self._expired = seconds
        if self._process is not None:
            self._process.kill()

    def _end(self, exited: asyncio.Future[int]) -> None:
        self.spent = True
        self._channel.read()  # a reply may still be in there
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(self._ending(exited.result()))

    def _ending(self, status: int) -> ToolError:
        if self._expired is not None:
            message = f"not done after {self._expired:g} s: the process was killed"
            return ToolError("timeout", message, retryable=True)
        if status == _NO_MEMORY:
            return ToolError("tool.memory", "the code needed too much memory")
        if self._killed or status == _CLOSED:
            return ToolError("tool.exit", self._why, details=exit_details(status))
        message = f"{describe_exit(status)} and gave no result"
        # Who ends well and says nothing broke the contract; the rest is an accident.
        kind = "tool.contract" if status == 0 else "tool.exit"
        return ToolError(kind, message, details=exit_details(status))
