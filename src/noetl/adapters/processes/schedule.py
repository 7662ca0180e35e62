"""Scheduler: assigns calls to processes, and decides which to start or retire.

It only decides: the pool performs the steps and reports events. After each report,
every waiting call is in one of these states:

* a process of its key is busy, and the next release serves the call;
* its key has no process, and all slots are busy: the next release makes room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from noetl.adapters.processes.request import Key

# More processes are started when the existing ones need longer than this for the
# waiting calls: for small calls a second process does not help.
MAX_WAIT_S = 0.01
_MAX_SANDBOX_WAIT_S = 0.1  # the same for a sandbox, which takes longer to start
_NEAR_S = 0.0002  # with less queued work, a process is used before an idle one
_FAIR_WAIT_S = 0.1  # maximum wait for slots of other keys
MAX_IDLE_S = 60.0


class Process(Protocol):
    """Properties of a process; ``places`` is the number of calls assigned to it."""

    key: Key
    places: int
    spent: bool
    idle_since: float
    started: float  # time of its start, infinity before that

    @property
    def work(self) -> float:
        """Estimated seconds until a call that is assigned now would begin."""
        ...

    def has_room(self, now: float) -> bool:
        """Return whether one more call may be assigned; always true if idle."""
        ...

    def pace(self, now: float) -> float:
        """Return the estimated seconds of a call."""
        ...


class Ticket(Protocol):
    """Waiting call; ``since`` is the time at which it came."""

    key: Key
    since: float

    def is_waiting(self) -> bool:
        """Return whether the call was neither served nor cancelled."""
        ...


P = TypeVar("P", bound=Process)
T = TypeVar("T", bound=Ticket)


class Serve(NamedTuple, Generic[T, P]):
    ticket: T
    process: P


class Start(NamedTuple):
    """Start a process and ``add`` it, or fail the ``first`` ticket of its key."""

    key: Key


class Retire(NamedTuple, Generic[P]):
    """End the process, which the schedule has already removed."""

    process: P


Step = Serve[T, P] | Start | Retire[P]


class Schedule(Generic[T, P]):
    """Schedules at most ``slots`` processes, each for one key.

    The first process of a shared key is not counted, so that it never displaces the
    process of an execution. Steps must be performed while they are iterated: each one
    depends on the effect of those before it.
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
        """Assign a new call to a process, if it need not wait."""
        if not self._queues:
            process = self._roomy(key, now)
        elif key in self._queues:
            return None  # earlier calls of its key wait
        else:
            process = self._choose(key, now, now)
        if process is not None:
            process.places += 1
        return process

    def wait(self, ticket: T, now: float) -> Iterable[Step[T, P]]:
        """Queue a call for which ``find`` returned None."""
        queue = self._queues.get(ticket.key)
        if queue is None:
            queue = self._queues[ticket.key] = deque()
        index = len(queue)
        while index and queue[index - 1].since > ticket.since:
            index -= 1
        queue.insert(index, ticket)
        for process in self._processes.get(ticket.key, ()):
            if process.places:
                return ()  # its release serves the call
        return self._settle(now)

    def leave(self, ticket: T, now: float) -> Iterable[Step[T, P]]:
        """Remove a cancelled call."""
        queue = self._queues.get(ticket.key)
        if queue is not None and ticket in queue:
            queue.remove(ticket)
            if not queue:
                del self._queues[ticket.key]
        return self._settle(now)

    def first(self, key: Key) -> T | None:
        """Return the next waiting call of this key."""
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
        """Note that a call has left the process."""
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
        """Start processes for calls that wait too long; call every ``MAX_WAIT_S``."""
        yield from self._settle(now)
        for key in self._waiting_keys():
            for _ in range(self._demand(key, now)):
                yield from self._enlarge(key, now)
        yield from self._settle(now)

    def expire(self, now: float) -> Iterator[Step[T, P]]:
        """Retire processes without a call for ``MAX_IDLE_S``."""
        for process in self.processes:
            if not process.places and now - process.idle_since >= MAX_IDLE_S:
                yield self._retire(process)
        yield from self._settle(now)

    def _hand_on(self, process: P, now: float) -> Iterator[Step[T, P]]:
        """Serve calls by this process, which alone has more room than before.

        The other processes are considered, too, if it has become idle, or if late calls
        of other keys hold back, or held back, calls.
        """
        late = bool(self._overdue(process.key, now))
        ticket = None if late else self.first(process.key)
        while ticket is not None and process.has_room(now):
            late = late or now - ticket.since > _FAIR_WAIT_S
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
        """Take all possible steps, for the oldest call first.

        Repeated after each change: a call that was served may have held back another.
        """
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
        """Take all possible steps for the calls of this key."""
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
        """Start a process for this key, if there is room, and serve a call by it."""
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
        """Return a process with room for a call that has waited since then."""
        processes = self._processes.get(key)
        if processes is None:
            return None
        if self._queues and any(each < since for each in self._overdue(key, now)):
            first = processes[0]  # the only one that may take no slot
            return (
                first if not self._takes_slot(first) and first.has_room(now) else None
            )
        return self._roomy(key, now)

    def _roomy(self, key: Key, now: float) -> P | None:
        best, least = None, 0.0
        for process in self._processes.get(key, ()):
            if process.has_room(now):
                work = process.work
                if work < _NEAR_S:
                    return process
                if best is None or work < least:
                    best, least = process, work
        return best

    def _serve(self, ticket: T, process: P) -> Serve[T, P]:
        """Assign the first call of its key to the process."""
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
        """Return the keys with waiting calls, that of the oldest call first."""
        heads = [self.first(key) for key in list(self._queues)]
        found = [head for head in heads if head is not None]
        return [head.key for head in sorted(found, key=lambda head: head.since)]

    def _overdue(self, key: Key, now: float) -> list[float]:
        """Return since when calls of other keys starve, which need this key's slots."""
        found: list[float] = []
        if len(self._queues) == 1 and key in self._queues:
            return found
        for other in list(self._queues):
            if other != key and now - self._queues[other][0].since > _FAIR_WAIT_S:
                head = self.first(other)
                if head is not None and self._is_starving(head, now):
                    found.append(head.since)
        return found

    def _is_starving(self, ticket: T, now: float) -> bool:
        is_late = now - ticket.since > _FAIR_WAIT_S
        return is_late and self._demand(ticket.key, now) > 0

    def _demand(self, key: Key, now: float) -> int:
        """Return the number of processes to add for the waiting calls.

        The number of processes is doubled if the existing ones take too long.
        """
        calls = len(self._queues.get(key, ()))
        processes = [each for each in self._processes.get(key, ()) if not each.spent]
        if not processes:
            return min(calls, 1)
        if any(now - each.started < MAX_WAIT_S for each in processes):
            return 0  # one is starting, or has just started
        paces = [process.pace(now) for process in processes]
        max_wait = MAX_WAIT_S if key.sandbox is None else _MAX_SANDBOX_WAIT_S
        if calls * sum(paces) / len(paces) ** 2 < max_wait:
            return 0
        return min(calls, len(processes))

    def _is_counted(self, key: Key) -> bool:
        """Return whether one more process of this key takes a slot."""
        return not key.shared or key in self._processes

    def _takes_slot(self, process: P) -> bool:
        return not process.key.shared or process is not self._processes[process.key][0]
