"""Quotas of resources that callers hold, in total and per caller."""

from __future__ import annotations

import resource
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any, Protocol

import msgspec

from noetl.api.http.problems import Problem
from noetl.wiring.server_options import Limits

KEPT = "noetl.kept"
_SOON = {"Retry-After": "1"}


class Quota:
    """At most ``most`` units in total, and ``most_each`` per caller."""

    def __init__(self, what: str, most: int, most_each: int) -> None:
        self._what = what
        self._most = most
        self._most_each = most_each
        self._held: dict[str, int] = {}
        self._total = 0
        self.refused = 0

    @property
    def total(self) -> int:
        return self._total

    def take(self, who: str, amount: int = 1) -> Callable[[], None]:
        """Take units and return a function that releases them.

        Raises ``Problem``: 429 if the caller's quota is used up, 503 if the total is.
        """
        mine = self._held.get(who, 0)
        if mine + amount > self._most_each:
            self.refused += 1
            message = f"this caller holds too many {self._what}"
            hint = f"close some of them; the limit is {self._most_each:,}"
            raise Problem("request.rate", message, hint=hint, headers=_SOON)
        if self._total + amount > self._most:
            self.refused += 1
            message = f"the server holds too many {self._what}; try again"
            raise Problem("server.busy", message, headers=_SOON)
        self._held[who] = mine + amount
        self._total += amount

        def give_back() -> None:
            self._total -= amount
            left = self._held[who] - amount
            if left:
                self._held[who] = left
            else:
                del self._held[who]

        return give_back


DRAWINGS, DRAWINGS_OF_CALLER = 32, 4
"""Reviews of texts and drawings of nets that are under way or wait: they are made one
at a time."""
TESTS, TESTS_OF_CALLER = 16, 2
"""Runs of tests that are under way or wait, of all callers and of one."""


class Quotas(msgspec.Struct, frozen=True):
    """Quotas; workers have separate ones, which other callers cannot use up."""

    streams: Quota
    claims: Quota
    bodies: Quota
    worker_bodies: Quota
    drawings: Quota
    tests: Quota

    @classmethod
    def of(cls, limits: Limits) -> Quotas:
        what, each = "bytes of request bodies", limits.body_bytes_of_caller
        mine = limits.worker_body_bytes
        return cls(
            Quota("open streams and waits", limits.streams, limits.streams_of_caller),
            Quota("open claims of work", limits.claims, limits.claims_of_caller),
            Quota(what, limits.body_bytes, each),
            Quota(what, mine, mine),
            Quota("reviews and drawings", DRAWINGS, DRAWINGS_OF_CALLER),
            Quota("test runs", TESTS, TESTS_OF_CALLER),
        )


def keep(scope: MutableMapping[str, Any], give_back: Callable[[], None]) -> None:
    """Hold a resource until the request is answered or its client disconnects."""
    kept: ExitStack = scope.setdefault(KEPT, ExitStack())
    kept.callback(give_back)


def release(scope: MutableMapping[str, Any]) -> None:
    """Release all resources of this request."""
    kept: ExitStack | None = scope.pop(KEPT, None)
    if kept is not None:
        kept.close()


class Connection(Protocol):
    def is_busy(self) -> bool:
        """True while a request on the connection is being answered."""
        ...

    def drop(self) -> None: ...


class Connections:
    """Admits connections.

    ``is_shared`` returns True for addresses with many clients, such as a proxy's: those
    have no limit per address.
    """

    def __init__(
        self,
        most: int,
        most_of_address: int,
        is_shared: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._is_shared = is_shared
        self._open: dict[str, dict[Connection, None]] = {}
        self._count = 0
        self.refused = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, connection: Connection, address: str) -> bool:
        """Return True if the connection is admitted; closes an idle one if needed."""
        own = self._open.get(address, {})
        full = len(own) >= self._most_of_address and not self._is_shared(address)
        if full and not self._drop_idle(address):
            self.refused += 1
            return False
        if self._count >= self._most and not self._drop_any_idle():
            self.refused += 1
            return False
        self._open.setdefault(address, {})[connection] = None
        self._count += 1
        return True

    def forget(self, connection: Connection, address: str) -> None:
        """Remove a closed connection; unknown connections are ignored."""
        own = self._open.get(address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._open[address]

    def _drop_any_idle(self) -> bool:
        """Close an idle connection of the address that has the most connections."""
        most_used = max(self._open, key=lambda address: len(self._open[address]))
        return any(self._drop_idle(each) for each in (most_used, *self._open))

    def _drop_idle(self, address: str) -> bool:
        """Close the oldest idle connection of this address."""
        for connection in self._open[address]:
            if not connection.is_busy():
                self.forget(connection, address)
                self.dropped += 1
                connection.drop()
                return True
        return False


MAX_DESCRIPTORS = 16_384
"""The soft limit of open files is raised to this value if the hard limit permits it."""
RESERVED_DESCRIPTORS = 128
"""Descriptors for the store, logs, tools and connections to other services."""
MAX_CONNECTIONS = 4_096
MIN_CONNECTIONS = 32


def limits_for(descriptors: int) -> Limits:
    """Return the limits of a process that may open this number of files."""
    room = (descriptors - RESERVED_DESCRIPTORS) * 3 // 4
    connections = min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, room))
    held = connections * 3 // 8
    return Limits(
        connections=connections,
        connections_of_address=connections // 2,
        streams=held,
        streams_of_caller=max(1, held // 4),
        claims=held,
        claims_of_caller=max(1, held // 2),
    )


def raise_descriptors() -> int:
    """Raise the soft limit of open files, and return the limit in effect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
