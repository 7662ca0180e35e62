"""Which call gets which process, and when a process is started or retired.

Decisions only: the pool performs them and reports what happens. After each report
every call that waits is in one of these states, or it would have been given a process:

* a process of its key is busy, and its next release gives the call its turn;
* its key has no process, and all slots are busy: the next release makes room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from noetl.adapters.processes.key import Key

# More processes are started when those that exist need longer than this for the calls
# that wait: a second process is no help for small calls.
PATIENCE = 0.01
_SANDBOXED = 0.1  # the same for processes in a sandbox, which take longer to start
_NEAR = 0.0002  # seconds of work in a process that is better than to wake another
_FAIRNESS = 0.1  # a call waits no longer than this for slots of other keys
KEPT = 60.0  # seconds without a call


class Process(Protocol):
    """What a decision depends on. ``places`` are the calls promised to the process."""

    key: Key
    places: int
    spent: bool
    idle_since: float
    started: float  # when, infinity before that

    @property
    def work(self) -> float:
        """Seconds until a call that is promised now would begin."""
        ...

    def has_room(self, now: float) -> bool:
        """Whether one more call may be promised to it; always, if it is idle."""
        ...

    def pace(self, now: float) -> float:
        """Seconds that a call takes."""
        ...


class Ticket(Protocol):
    """A call that waits; ``since`` when."""

    key: Key
    since: float

    def is_waiting(self) -> bool:
        """Whether it was neither served nor cancelled."""
        ...


P = TypeVar("P", bound=Process)
T = TypeVar("T", bound=Ticket)


class Serve(NamedTuple, Generic[T, P]):
    ticket: T
    process: P


class Start(NamedTuple):
    """Start a process and ``add`` it. If that fails, the ``first`` ticket of the key is
    told so and no longer waits."""

    key: Key


class Retire(NamedTuple, Generic[P]):
    """End the process: it is no longer in the schedule."""

    process: P


Step = Serve[T, P] | Start | Retire[P]


class Schedule(Generic[T, P]):
    """At most ``slots`` processes, each for one key. The first process of a shared key
    is not counted: it must not drive out those that serve one execution.

    Steps are performed while they are iterated: what the next one is depends on it.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._processes: dict[Key, list[P]] = {}
        self._queues: dict[Key, deque[T]] = {}

    @property
    def processes(self) -> list[P]:
        return [each for found in self._processes.values() for each in found]

    @property
    def waiting(self) -> list[T]:
        return [each for queue in self._queues.values() for each in queue]

    def find(self, key: Key, now: float) -> P | None:
        """Take a place for a call that has just come, if it need not wait."""
        if not self._queues:
            process = self._roomy(key, now)
        elif key in self._queues:
            return None  # others of its key came first
        else:
            process = self._choose(key, now, now)
        if process is not None:
            process.places += 1
        return process

    def wait(self, ticket: T, now: float) -> Iterable[Step[T, P]]:
        """Let a call wait for which ``find`` found no place."""
        queue = self._queues.get(ticket.key)
        if queue is None:
            queue = self._queues[ticket.key] = deque()
        index = len(queue)
        while index and queue[index - 1].since > ticket.since:
            index -= 1
        queue.insert(index, ticket)
        for process in self._processes.get(ticket.key, ()):
            if process.places:
                return ()  # its release is the call's turn
        return self._settle(now)

    def leave(self, ticket: T, now: float) -> Iterable[Step[T, P]]:
        """Forget a call that was cancelled."""
        queue = self._queues.get(ticket.key)
        if queue is not None and ticket in queue:
            queue.remove(ticket)
            if not queue:
                del self._queues[ticket.key]
        return self._settle(now)

    def first(self, key: Key) -> T | None:
        """The call of this key that is next."""
        queue = self._queues.get(key)
        while queue:
            if queue[0].is_waiting():
                return queue[0]
            queue.popleft()
        self._queues.pop(key, None)
        return None

    def add(self, process: P) -> None:
        self._processes.setdefault(process.key, []).append(process)

    def release(self, process: P, now: float) -> Iterable[Step[T, P]]:
        """A call has left its place."""
        process.places -= 1
        if self._queues:
            return self._hand_on(process, now)
        if process.places:
            return ()
        process.idle_since = now
        if process.spent or process.key.alone:
            return (self._retire(process),)
        return ()

    def tick(self, now: float) -> Iterator[Step[T, P]]:
        """What time alone brings about while calls wait; every ``PATIENCE`` seconds."""
        yield from self._settle(now)
        for key in self._waiting_keys():
            for _ in range(self._demand(key, now)):
                yield from self._enlarge(key, now)
        yield from self._settle(now)

    def expire(self, now: float) -> Iterator[Step[T, P]]:
        """Retire what had no call for long."""
        for process in self.processes:
            if not process.places and now - process.idle_since >= KEPT:
                yield self._retire(process)
        yield from self._settle(now)

    def _hand_on(self, process: P, now: float) -> Iterator[Step[T, P]]:
        """Only this process has more room than before. All others are looked at, too,
        if it has become idle, or if late calls hold back, or held back, other ones."""
        late = bool(self._overdue(process.key, now))
        ticket = None if late else self.first(process.key)
        while ticket is not None and process.has_room(now):
            late = late or now - ticket.since > _FAIRNESS
            yield self._serve(ticket, process)
            ticket = self.first(process.key)
        if not process.places:
            process.idle_since = now
            if process.spent or process.key.alone:
                yield self._retire(process)
        others = len(self._queues) - (process.key in self._queues)
        if (self._queues and not process.places) or (late and others):
            yield from self._settle(now)

    def _settle(self, now: float) -> Iterator[Step[T, P]]:
        """All that can be done at once, for the oldest call first; again after each
        change, for a call may have been held back by one that was served since."""
        for process in self.processes:
            if process.spent and not process.places:
                yield self._retire(process)  # it died while it was idle
        while True:
            steps = 0
            for key in self._waiting_keys():
                for step in self._further(key, now):
                    steps += 1
                    yield step
            if not steps:
                return

    def _further(self, key: Key, now: float) -> Iterator[Step[T, P]]:
        """What can be done for the calls of this key."""
        while (ticket := self.first(key)) is not None:
            process = self._choose(key, ticket.since, now)
            if process is not None:
                yield self._serve(ticket, process)
            elif key not in self._processes or self._is_starving(ticket, now):
                yield from self._enlarge(key, now)
                if self.first(key) is ticket:
                    return  # there is no room
            else:
                return

    def _enlarge(self, key: Key, now: float) -> Iterator[Step[T, P]]:
        """One more process for this key, if there is room, and the call it is for."""
        if self._is_counted(key):
            counted = [each for each in self.processes if self._takes_slot(each)]
            if len(counted) >= self._slots:
                idle = [each for each in counted if not each.places]
                if not idle:
                    return
                yield self._retire(min(idle, key=lambda each: each.idle_since))
        yield Start(key)
        ticket = self.first(key)
        process = self._roomy(key, now)
        if ticket is not None and process is not None:
            yield self._serve(ticket, process)

    def _choose(self, key: Key, since: float, now: float) -> P | None:
        """The process for a call that waits since then."""
        processes = self._processes.get(key)
        if processes is None:
            return None
        if self._queues and any(each < since for each in self._overdue(key, now)):
            first = processes[0]  # the one that may not be counted
            return (
                first if not self._takes_slot(first) and first.has_room(now) else None
            )
        return self._roomy(key, now)

    def _roomy(self, key: Key, now: float) -> P | None:
        best, least = None, 0.0
        for process in self._processes.get(key, ()):
            if process.has_room(now):
                work = process.work
                if work < _NEAR:
                    return process
                if best is None or work < least:
                    best, least = process, work
        return best

    def _serve(self, ticket: T, process: P) -> Serve[T, P]:
        """Give the first call of its key a place."""
        queue = self._queues[ticket.key]
        queue.popleft()
        if not queue:
            del self._queues[ticket.key]
        process.places += 1
        return Serve(ticket, process)

    def _retire(self, process: P) -> Retire[P]:
        processes = self._processes[process.key]
        processes.remove(process)
        if not processes:
            del self._processes[process.key]
        return Retire(process)

    def _waiting_keys(self) -> list[Key]:
        """The oldest call's first."""
        heads = [self.first(key) for key in list(self._queues)]
        found = [head for head in heads if head is not None]
        return [head.key for head in sorted(found, key=lambda head: head.since)]

    def _overdue(self, key: Key, now: float) -> list[float]:
        """Since when calls of other keys starve: slots of this key are to be theirs."""
        found: list[float] = []
        if len(self._queues) == 1 and key in self._queues:
            return found
        for other in list(self._queues):
            if other != key and now - self._queues[other][0].since > _FAIRNESS:
                head = self.first(other)
                if head is not None and self._is_starving(head, now):
                    found.append(head.since)
        return found

    def _is_starving(self, ticket: T, now: float) -> bool:
        is_late = now - ticket.since > _FAIRNESS
        return is_late and self._demand(ticket.key, now) > 0

    def _demand(self, key: Key, now: float) -> int:
        """How many more processes the calls that wait are worth: twice as many, if
        those that exist take too long."""
        calls = len(self._queues.get(key, ()))
        processes = [each for each in self._processes.get(key, ()) if not each.spent]
        if not processes:
            return min(calls, 1)
        if any(now - each.started < PATIENCE for each in processes):
            return 0  # one is being started, or was just now
        paces = [process.pace(now) for process in processes]
        patience = PATIENCE if key.sandbox is None else _SANDBOXED
        if calls * sum(paces) / len(paces) ** 2 < patience:
            return 0
        return min(calls, len(processes))

    def _is_counted(self, key: Key) -> bool:
        """Whether one more process of this key takes a slot."""
        return not key.shared or key in self._processes

    def _takes_slot(self, process: P) -> bool:
        return not process.key.shared or process is not self._processes[process.key][0]
