"""Process that runs Python calls, one after another."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from functools import partial

import msgspec

from noetl.adapters.processes.capture import Capture, describe_exit, exit_details
from noetl.adapters.processes.channel import Channel
from noetl.adapters.processes.launcher import INTERPRETER, Launcher, Order, Process
from noetl.adapters.processes.request import Ended, Key, Reply, Request, Turnstile
from noetl.adapters.processes.sandbox import Sandbox, enclose
from noetl.ports.task_logs import Stream
from noetl.ports.tools import Output

_CLOSED, _NO_MEMORY = 71, 87  # exit codes of noetl_child
_MAX_QUEUED_S = 0.002  # work that may wait in a process
_OVERDUE_S = 0.005  # a call that runs longer loses the calls queued behind it
_MAX_SOURCES = 256  # codes that a process caches before it drops them all
_SMOOTH = 4
_UNASSIGNED = Key("", None, None)
_STREAMS = 3  # the standard ones
_INIT = "1"  # process id of the parent inside a sandbox

_decode = msgspec.json.Decoder(Reply).decode


class TakenBack(Exception):
    """The call was revoked before it began: another process must run it."""


class _Call:
    __slots__ = ("body", "code", "number", "output", "reply", "seconds")

    def __init__(
        self, request: Request, seconds: float | None, output: Output | None
    ) -> None:
        self.number = 0
        self.code = request.code
        self.body = request.encode()
        self.seconds = seconds
        self.output = output
        loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[Reply] = loop.create_future()


class Runner:
    """Runs the first call of its queue; the others wait in the process for a permit.

    A permit can be revoked. A runner without a key is a spare. A ``spent`` runner must
    not run another call: it died, or the code left threads or processes. ``places`` is
    the number of calls assigned to it, at most ``ahead``.
    """

    def __init__(self) -> None:
        self.key = _UNASSIGNED
        self.sandbox: Sandbox | None = None
        self.places = 0
        self.idle_since = 0.0
        self.spent = False
        self.started = math.inf  # when
        self._ahead = 1
        self._pace = _MAX_QUEUED_S  # seconds per call: at first, one call at a time
        self._channel = Channel(self._receive, self._lose)
        self._turnstile = Turnstile()
        self._process: Process | None = None
        self._loop = asyncio.get_running_loop()
        self._unsent: list[_Call] = []
        self._queue: deque[_Call] = deque()
        self._since = 0.0  # when the first of the queue began
        self._timer: asyncio.Handle | None = None
        self._due = 0.0  # of the timer: the handles of some loops do not have it
        self._sources: dict[str, int] = {}
        self._number = 0
        # Revoked calls up to this number may still be in the pipe. While that is so, a
        # call that needs no permit is sent in a frame of its own; otherwise the child,
        # skipping the revoked calls, could consume the permit of a later call, which
        # could then not be revoked.
        self._stale = 0
        self._why = ""
        self._killed = False
        self._expired: float | None = None

    def start(self, launcher: Launcher, sandbox: Sandbox | None = None) -> None:
        """Start the process without waiting; the first call raises if that failed."""
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
        stdout, stderr = self._process.stdout, self._process.stderr
        stdout.before = stderr.before = self._hold
        stdout.feed = partial(self._log, stdout, "stdout")
        stderr.feed = partial(self._log, stderr, "stderr")
        self._process.started.add_done_callback(self._begin)
        self._process.exited.add_done_callback(self._end)

    def assign(self, key: Key, order: Order, ahead: int) -> None:
        """Assign the process to a key, once; it serves no calls of other keys."""
        self.key = key
        self._ahead = 1 if key.alone else ahead
        self._channel.send(msgspec.json.encode(order))

    def pace(self, now: float) -> float:
        """Return the estimated seconds of a call in this process."""
        if not self._queue:
            return self._pace
        if now - self._since > self._pace:
            self._channel.read()  # the reply may wait in the pipe
        return max(self._pace, now - self._since) if self._queue else self._pace

    @property
    def work(self) -> float:
        """Estimated seconds until a call that is assigned now would begin."""
        return self.places * self._pace

    def has_room(self, now: float) -> bool:
        """Return whether one more call may be assigned."""
        if self.spent:
            return False
        if not self.places:
            return True
        if self.places >= self._ahead or self.work >= _MAX_QUEUED_S:
            return False
        return not self._queue or now - self._since < _OVERDUE_S

    async def call(
        self, request: Request, seconds: float | None, output: Output | None = None
    ) -> Reply:
        """Run a call, and add what it prints to ``output``.

        Raises ``Ended`` if the process ends or the time is up, and ``TakenBack`` if the
        call was revoked before it began.
        """
        call = _Call(request, seconds, output)
        if not self._queue and not self._unsent:
            self._unsent.append(call)
            self._send()
        else:
            if not self._unsent:  # one frame for the calls of one turn of the loop
                self._loop.call_soon(self._send)
            self._unsent.append(call)
        try:
            return await call.reply
        except asyncio.CancelledError:
            await self._cancel(call)
            raise

    async def stop(self) -> None:
        """Kill the process and its descendants, and wait until they have ended."""
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
        """Send the unsent calls in one frame; an idle process begins the first one."""
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
        # Before the frame: the process takes a call without a permit for revoked.
        if waiting and not self._turnstile.permit([call.number for call in waiting]):
            self._lose("interfered with the calls that wait", 0)
            return
        self._channel.send(self._frame(calls, is_idle))
        if is_idle:
            self._since = self._loop.time()
        self._watch()

    def _frame(self, calls: list[_Call], begins: bool) -> bytes:
        forget = len(self._sources) > _MAX_SOURCES
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
        if reply.spent or reply.printed:  # the process waits for the next frame
            took = max(took, _MAX_QUEUED_S)
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
        """Add the content of the pipes to the reply; see ``_hold``."""
        assert self._process is not None
        stdout, stderr = self._process.stdout, self._process.stderr
        if reply.printed:
            stdout.drain()
            stderr.drain()
        self.spent = reply.spent = reply.spent or stdout.ended or stderr.ended
        reply.stdout, reply.stderr = stdout.take(), stderr.take()

    def _hold(self) -> None:
        """Revoke the queued calls before output is read, so that it is of one call.

        A process reports in its reply that output was not read yet, and waits. So the
        output of earlier calls was already assigned to them.
        """
        if len(self._queue) > 1:
            self._pace = max(self._pace, _MAX_QUEUED_S)
            self._settle()

    def _log(self, capture: Capture, stream: Stream, data: bytes) -> None:
        """Add what was read to the log of the running call; see ``_hold``."""
        if self._queue and (output := self._queue[0].output) is not None:
            capture.pour(output, stream, data)

    def _settle(self) -> None:
        """Reduce the queue to the running call, if there is one.

        A process replies before it takes the next permit, so the running call is the
        one that has neither a reply nor a permit left.
        """
        self._take_back()
        self._channel.read()
        if len(self._queue) > 1:
            self._lose("interfered with the calls that wait", 0)

    def _take_back(self) -> None:
        """Revoke the calls that have not begun; the running call continues."""
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
        """Set the timer of the running call: its timeout, or when it is overdue."""
        if self.started == math.inf:
            return
        first = self._queue[0]
        due = None if first.seconds is None else self._since + first.seconds
        if len(self._queue) > 1:
            late = self._since + _OVERDUE_S
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
        if len(self._queue) > 1 and now - self._since >= _OVERDUE_S:
            self._channel.read()  # the reply may wait in the pipe
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
        """Drop a call that has not begun; kill the process of a running one."""
        if call in self._unsent:
            self._unsent.remove(call)
            return
        if call in self._queue:
            self._settle()
        if self.spent or call in self._queue:
            await self.stop()

    def _lose(self, why: str, grace: float) -> None:
        """Note the end of the channel; kill the process after ``grace`` seconds.

        If the process ends before that, its exit status is reported instead.
        """
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
        self._channel.read()  # the last reply may wait in the pipe
        self._take_back()
        while self._queue:
            error = self._ending()  # reads the last output of the first call
            if not (reply := self._queue.popleft().reply).done():
                reply.set_exception(error)

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
        message = f"{describe_exit(status)} and returned no result"
        # Exit code 0 without a result breaks the contract.
        kind = "tool.contract" if status == 0 else "tool.exit"
        return Ended(kind, message, details=exit_details(status))


def _refuse(calls: list[_Call]) -> None:
    for call in calls:
        if not call.reply.done():
            call.reply.set_exception(TakenBack())
