"""Ages of the leases of a worker, at the most: the fence of its tools (I-19).

A lease lasts from the moment at which a server gave or renewed it. The worker does not
know that moment, and no clock of another machine matters. But it was not before the
worker had sent the request: so the age of a lease is counted from then. A claim may
wait at its server, so its answer says for how long it did.

An answer that comes late, or that a suspended process reads late, thus brings a lease
that is old already, and begins no call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from noetl.runtime.worker_protocol import messages

FENCE = 5 / 6
"""The part of a lease's life after which a worker without an answer stops its tools:
before another worker may take the lease (I-19).
"""
MAX_LEASES = 20_000
"""Leases whose age is remembered; more than a worker has slots."""


class LeaseAges:
    """The ages of leases. ``ttl`` is the life of a lease in seconds."""

    def __init__(self, monotonic: Callable[[], float], ttl: float) -> None:
        self.ttl = ttl
        self._monotonic = monotonic
        self._since: OrderedDict[messages.LeaseKey, float] = OrderedDict()

    def note(self, message: messages.Message, answer: object, sent: float) -> None:
        """Take the leases that an answer gives or renews; ``message`` was ``sent`` at
        this time. A report renews no lease: only its next pipeline has a new one."""
        if isinstance(answer, messages.ClaimReply):
            self._begin([each.lease for each in answer.work], sent + answer.waited)
        elif isinstance(answer, messages.ReportBatchReply):
            works = [each.work for each in answer.replies if each.work is not None]
            self._begin([work.lease for work in works], sent)
        elif isinstance(message, messages.Heartbeat) and not message.leaving:
            assert isinstance(answer, messages.HeartbeatReply)
            lost = set(answer.lost)
            kept = [each for each in message.leases if each.command_id not in lost]
            self._begin(kept, sent)

    def _begin(self, leases: Sequence[messages.LeaseKey], at: float) -> None:
        for lease in leases:
            self._since[lease] = max(at, self._since.pop(lease, at))
        while len(self._since) > MAX_LEASES:
            self._since.popitem(last=False)

    def in_danger(self, leases: Sequence[messages.LeaseKey]) -> bool:
        """Return whether another worker may soon get one of these leases. A lease that
        is not known is as old as the first call that names it."""
        now = self._monotonic()
        oldest = now - self.ttl * FENCE
        return any(self._since.setdefault(lease, now) < oldest for lease in leases)

    def are_over(self, message: messages.Message) -> bool:
        """Return whether no lease that a request names has time left."""
        return all(self.in_danger([lease]) for lease in _leases_of(message))


def _leases_of(message: messages.Message) -> Sequence[messages.LeaseKey]:
    if isinstance(message, messages.LeaseRequest):
        return [message.lease]
    if isinstance(message, messages.ReportBatch):
        return [each.lease for each in message.reports]
    if isinstance(message, messages.LogBatch):
        return [each.lease for each in message.entries]
    return message.leases if isinstance(message, messages.Heartbeat) else ()
