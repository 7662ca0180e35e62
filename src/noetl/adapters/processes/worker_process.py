"""One process that runs python calls, one after another."""

from __future__ import annotations

import asyncio
import math
from collections import deque

import msgspec

from noetl.adapters.processes.channel import Channel
from noetl.adapters.processes.endings import describe_exit, exit_details
from noetl.adapters.processes.key import Key
from noetl.adapters.processes.launcher import INTERPRETER, Launcher, Order, Process
from noetl.adapters.processes.request import Ended, Reply, Request
from noetl.adapters.processes.sandbox import Sandbox, enclose
from noetl.adapters.processes.turnstile import Turnstile

_CLOSED, _NO_MEMORY = 71, 87  # exit codes of the child's own
_AHEAD = 0.002  # seconds of work that may wait in a process
_OVERDUE = 0.005  # how long a call may run before those behind it go elsewhere
_SOURCES = 256  # that a process is told before it forgets them all
_SMOOTH = 4
_NOBODY = Key("", None, None)
_STREAMS = 3  # the standard ones
_INIT = "1"  # the parent of all in a sandbox

_decode = msgspec.json.Decoder(Reply).decode


class TakenBack(Exception):
    """The call has not begun, and will not in this process: another is to run it."""


class _Call:
    __slots__ = ("body", "code", "number", "reply", "seconds")

    def __init__(
        self, request: Request, seconds: float | None, reply: asyncio.Future[Reply]
    ) -> None:
        self.number = 0
        self.code = request.code
        self.body = request.encode()
        self.seconds = seconds
        self.reply = reply


class Runner:
    """The first call of the queue is running. The others are in the process already if
    there are any, and wait for a permit, which can be taken back.

    Until it is assigned to a key it is a spare. ``spent`` once it must not run another
    call: it died, or the code littered.
    ``places`` are the calls that were promised to it, at most ``ahead`` of them.
    """

    def __init__(self) -> None:
        self.key = _NOBODY
        self.sandbox: Sandbox | None = None
        self.places = 0
        self.idle_since = 0.0
        self.spent = False
        self.started = math.inf  # when
        self._ahead = 1
        self._pace = _AHEAD  # seconds of a call: one at a time until we know better
        self._channel = Channel(self._receive, self._lose)
        self._turnstile = Turnstile()
        self._process: Process | None = None
        self._loop = asyncio.get_running_loop()
        self._unsent: list[_Call] = []
        self._queue: deque[_Call] = deque()
        self._since = 0.0  # when the first of the queue began
        self._timer: asyncio.Handle | None = None
        self._due = 0.0  # when that is: not every loop's handles say so
        self._sources: dict[str, int] = {}
        self._number = 0
        # Up to this number there may be calls in the channel that were taken back. One
        # that needs no permit goes alone then: at their sight the process would take
        # the permit of a call behind it, and that call could not be taken back.
        self._stale = 0
        self._why = ""
        self._killed = False
        self._expired: float | None = None

    def start(self, launcher: Launcher, sandbox: Sandbox | None = None) -> None:
        """Does not wait: whether it could be started shows in the first call."""
        self.sandbox = sandbox
        files = [*self._channel.give(), self._turnstile.give()]
        if sandbox is None:
            self._process = launcher.launch_server(files)
        else:
            first = _STREAMS + len(files)
            program = [*INTERPRETER, "serve", _INIT]
            enclosed = enclose(sandbox, program, {}, None, first)
            order = Order(program=enclosed.program, environment={}, filtered=False)
            self._process = launcher.launch(order, channel=files, more=enclosed.files)
        self._process.stdout.before = self._process.stderr.before = self._hold
        self._process.started.add_done_callback(self._begin)
        self._process.exited.add_done_callback(self._end)

    def assign(self, key: Key, order: Order, ahead: int) -> None:
        """From now on it serves calls of this key, and no others ever."""
        self.key = key
        self._ahead = 1 if key.alone else ahead
        self._channel.send(msgspec.json.encode(order))

    def pace(self, now: float) -> float:
        """Seconds that a call takes here, as far as we can tell."""
        if not self._queue:
            return self._pace
        if now - self._since > self._pace:
            self._channel.read()  # it may be us who are slow
        return max(self._pace, now - self._since) if self._queue else self._pace

    @property
    def work(self) -> float:
        """Seconds until a call that is promised now would begin."""
        return self.places * self._pace

    def has_room(self, now: float) -> bool:
        """Whether one more call may be promised to it."""
        if self.spent:
            return False
        if not self.places:
            return True
        if self.places >= self._ahead or self.work >= _AHEAD:
            return False
        return not self._queue or now - self._since < _OVERDUE

    async def call(self, request: Request, seconds: float | None) -> Reply:
        """Run it. Raises ``Ended`` if the process ends or takes too long, and
        ``TakenBack`` if it was not begun."""
        call = _Call(request, seconds, self._loop.create_future())
        if not self._queue and not self._unsent:
            self._unsent.append(call)
            self._send()
        else:
            if not self._unsent:  # those of one turn of the loop go together
                self._loop.call_soon(self._send)
            self._unsent.append(call)
        try:
            return await call.reply
        except asyncio.CancelledError:
            await self._cancel(call)
            raise

    async def stop(self) -> None:
        """End the process and all it started; nothing of it runs afterwards."""
        self.spent = True
        self._take_back()
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()
        self._turnstile.close()
        if self._process is not None:
            self._process.close()

    def _begin(self, started: asyncio.Future[None]) -> None:
        self.started = self._since = self._loop.time()
        if self._queue:
            self._watch()

    def _send(self) -> None:
        """All that is unsent, in one frame; the first of an idle process begins."""
        calls, self._unsent = self._unsent, []
        if self.spent:
            _refuse(calls)
            return
        is_idle = not self._queue
        if self._stale and is_idle:
            calls, self._unsent = calls[:1], calls[1:]
        elif self._stale and self._queue[0].number > self._stale:
            calls, self._unsent = [], calls
        if not calls:
            return
        for call in calls:
            self._number += 1
            call.number = self._number
        waiting = calls[1:] if is_idle else calls
        self._queue.extend(calls)
        # Before the frame: what the process reads and has no permit was taken back.
        if waiting and not self._turnstile.permit([call.number for call in waiting]):
            self._lose("interfered with the calls that wait", 0)
            return
        self._channel.send(self._frame(calls, is_idle))
        if is_idle:
            self._since = self._loop.time()
        self._watch()

    def _frame(self, calls: list[_Call], begins: bool) -> bytes:
        forget = len(self._sources) > _SOURCES
        if forget:
            self._sources.clear()
        told: dict[int, str] = {}
        parts = []
        for call in calls:
            source = 0
            if call.code is not None:
                source = self._sources.get(call.code, 0)
                if not source:
                    source = self._sources[call.code] = len(self._sources) + 1
                    told[source] = call.code
            parts.append(b"[%d,%d,%b" % (call.number, source, call.body))
        head = msgspec.json.encode((begins, forget, told))
        return b"%b,[%b]]" % (head[:-1], b",".join(parts))

    def _receive(self, body: bytes) -> None:
        if self._why:
            return
        try:
            reply = _decode(body)
        except (msgspec.DecodeError, RecursionError):
            reply = None
        if reply is None or not self._queue or reply.number != self._queue[0].number:
            self._lose("wrote into the channel to its worker", 0)
            return
        self._take_output(reply)
        took = reply.took / 1e6
        if reply.spent or reply.printed:  # it does not go on by itself
            took = max(took, _AHEAD)
            self._take_back()
        pace = self._pace
        self._pace = max(took, pace + (took - pace) / _SMOOTH)
        done = self._queue.popleft()
        self._since = self._loop.time()
        if done.number > self._stale:
            self._stale = 0
        if not done.reply.done():
            done.reply.set_result(reply)
        if self._unsent and not self._queue:
            self._send()
        elif self._queue and self._queue[0].seconds is not None:
            self._watch()

    def _take_output(self, reply: Reply) -> None:
        """What is in the pipes is this call's: see ``_hold``."""
        assert self._process is not None
        stdout, stderr = self._process.stdout, self._process.stderr
        if reply.printed:
            stdout.drain()
            stderr.drain()
        self.spent = reply.spent = reply.spent or stdout.ended or stderr.ended
        reply.stdout, reply.stderr = stdout.take(), stderr.take()

    def _hold(self) -> None:
        """Before any output is read: from here on only one call can have printed it.

        A process says in its reply if output of the call was not yet read, and waits.
        So all that was printed by earlier calls belongs to them already.
        """
        if len(self._queue) > 1:
            self._pace = max(self._pace, _AHEAD)
            self._settle()

    def _settle(self) -> None:
        """Afterwards the queue is the one call that runs, if one does.

        A process replies before it takes the next permit: so what has neither is it.
        """
        self._take_back()
        self._channel.read()
        if len(self._queue) > 1:
            self._lose("interfered with the calls that wait", 0)

    def _take_back(self) -> None:
        """The calls that have not begun; the one that runs is not disturbed."""
        calls, self._unsent = self._unsent, []
        numbers = self._turnstile.take_back() if self._queue else ()
        if numbers:
            last = [call.number for call in self._queue][-len(numbers) :]
            if list(numbers) != last:
                self._lose("interfered with the calls that wait", 0)
                numbers = ()
            self._stale = self._number
        calls = [*(self._queue.pop() for _ in numbers)][::-1] + calls
        _refuse(calls)

    def _watch(self) -> None:
        """One timer for the first of the queue: it expires, or holds others up."""
        if self.started == math.inf:
            return
        first = self._queue[0]
        due = None if first.seconds is None else self._since + first.seconds
        if len(self._queue) > 1:
            late = self._since + _OVERDUE
            due = late if due is None else min(due, late)
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = self._loop.call_at(due, self._look), due

    def _look(self) -> None:
        self._timer = None
        if not self._queue or self.spent:
            return
        first, now = self._queue[0], self._loop.time()
        if len(self._queue) > 1 and now - self._since >= _OVERDUE:
            self._channel.read()  # it may be us who are slow
            if self._queue and self._queue[0] is first:
                self._pace = max(self._pace, now - self._since)
                self._settle()
        elif first.seconds is not None and now - self._since >= first.seconds:
            self._settle()
            if self._queue and self._queue[0] is first:
                self.spent = True
                self._expired = first.seconds
                self._kill()
        if self._queue and not self.spent:
            self._watch()

    async def _cancel(self, call: _Call) -> None:
        """What has not begun is forgotten; what runs is killed, and waited for."""
        if call in self._unsent:
            self._unsent.remove(call)
            return
        if call in self._queue:
            self._settle()
        if self.spent or call in self._queue:
            await self.stop()

    def _lose(self, why: str, grace: float) -> None:
        """Nothing more will come this way: if the process ends, that says more."""
        self.spent = True
        self._why = self._why or f"the process {why}"
        self._loop.call_later(grace, self._give_up)

    def _give_up(self) -> None:
        if self._process is not None and not self._process.exited.done():
            self._killed = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _end(self, exited: asyncio.Future[int]) -> None:
        self.spent = True
        self._channel.read()  # a reply may still be in there
        self._take_back()
        while self._queue:
            call = self._queue.popleft()
            if not call.reply.done():
                call.reply.set_exception(self._ending())

    def _ending(self) -> Ended:
        assert self._process is not None
        error = self._explain(self._process.exited.result(), self._process.failure)
        stdout, stderr = self._process.stdout, self._process.stderr
        stdout.drain()
        stderr.drain()
        error.stdout, error.stderr = stdout.take(), stderr.take()
        return error

    def _explain(self, status: int, failure: str) -> Ended:
        if failure:
            message = f"no process was started: {failure}"
            return Ended("tool.exit", message, retryable=True)
        if self._expired is not None:
            message = f"not done after {self._expired:g} s: the process was killed"
            return Ended("timeout", message, retryable=True)
        if status == _NO_MEMORY:
            return Ended("tool.memory", "the code needed too much memory")
        if self._killed or status == _CLOSED:
            return Ended("tool.exit", self._why, details=exit_details(status))
        message = f"{describe_exit(status)} and gave no result"
        # Who ends well and says nothing broke the contract; the rest is an accident.
        kind = "tool.contract" if status == 0 else "tool.exit"
        return Ended(kind, message, details=exit_details(status))


def _refuse(calls: list[_Call]) -> None:
    for call in calls:
        if not call.reply.done():
            call.reply.set_exception(TakenBack())
