"""What callers hold at this moment, counted for all of them and for each."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

import msgspec

from noetl.api.limits import Limits
from noetl.api.problems import Problem

_KEPT = "noetl.kept"
_SOON = {"Retry-After": "1"}


class Quota:
    """At most ``most`` of something in all, and ``most_each`` for one caller."""

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
        """What gives it back. Raises ``Problem``: 429 if this caller holds too much,
        503 if all callers together do."""
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


class Quotas(msgspec.Struct, frozen=True):
    """Workers have quotas of their own: people cannot use them up."""

    streams: Quota
    claims: Quota
    bodies: Quota
    worker_bodies: Quota

    @classmethod
    def of(cls, limits: Limits) -> Quotas:
        what, each = "bytes of request bodies", limits.body_bytes_of_caller
        mine = limits.worker_body_bytes
        return cls(
            Quota("open streams and waits", limits.streams, limits.streams_of_caller),
            Quota("open claims of work", limits.claims, limits.claims_of_caller),
            Quota(what, limits.body_bytes, each),
            Quota(what, mine, mine),
        )


def keep(scope: MutableMapping[str, Any], give_back: Callable[[], None]) -> None:
    """Hold something until the answer to this request is out, or its sender is gone."""
    kept: ExitStack = scope.setdefault(_KEPT, ExitStack())
    kept.callback(give_back)


def release(scope: MutableMapping[str, Any]) -> None:
    """Give everything back that was kept for this request."""
    kept: ExitStack | None = scope.pop(_KEPT, None)
    if kept is not None:
        kept.close()
