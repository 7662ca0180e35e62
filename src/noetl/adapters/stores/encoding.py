"""Encoding of transitions: checked, and their events packed into batches once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from noetl.adapters.stores.batches import Batch, pack_batches
from noetl.adapters.stores.summaries import EncodedSummary, encode_summary
from noetl.engine.event_codec import pack
from noetl.errors import StoreError
from noetl.ports import Command, Lease, Timer, Transition

_body_of = attrgetter("body")


class Encoded(msgspec.Struct, frozen=True):
    """A checked transition with its events and its summary as they are stored.

    ``size`` is the number of bytes of its batches.
    """

    transition: Transition
    batches: Sequence[Batch]
    summary: EncodedSummary
    size: int

    @property
    def after(self) -> int:
        """Position at which the stored log must be; 0 also for a fork, which brings
        its history along."""
        return self.transition.log.after - len(self.transition.log.history)

    @property
    def last_seq(self) -> int:
        """Position of the stored log after the transition."""
        return self.transition.log.after + len(self.transition.log.events)


def encode(transitions: Sequence[Transition]) -> list[Encoded]:
    """Check and encode a group. Raises ``StoreError`` before anything is written."""
    keys = [each.slot.key for each in transitions if each.slot is not None]
    if len(set(keys)) < len(keys):
        message = (
            "a group of transitions may change slots of a concurrency key once; "
            "commit the second transition by itself"
        )
        raise StoreError(message, "store.foreign")
    return [_encode(transition) for transition in transitions]


def _encode(transition: Transition) -> Encoded:
    _check_sequence(transition)
    _check_owner(transition)
    log = transition.log
    try:
        bodies = log.bodies
        if bodies is None:
            bodies = [pack(event) for event in log.events]
        summary = encode_summary(transition.summary)
    except (TypeError, ValueError) as error:  # among them: lone surrogates
        message = f"execution {transition.execution_id}: not JSON: {error}"
        raise StoreError(message, "store.encoding") from error
    if log.history:
        bodies = [*log.history, *bodies]
    batches = pack_batches(bodies, transition.execution_id)
    size = sum(map(len, map(_body_of, batches)))
    return Encoded(transition, batches, summary, size)


def _check_sequence(transition: Transition) -> None:
    """Refuse a gap in ``seq``, which could never be closed (I-04)."""
    execution_id, log = transition.execution_id, transition.log
    after = log.after
    for seq, event in enumerate(log.events, after + 1):
        if event.seq != seq or event.execution_id != execution_id:
            raise StoreError(
                f"execution {execution_id}: expected its event {seq}, "
                f"got event {event.seq} of {event.execution_id}",
                "store.sequence",
            )
    if log.history and len(log.history) != after:
        kept = len(log.history)
        message = f"execution {execution_id} begins with {kept} events, not {after}"
        raise StoreError(message, "store.sequence")
    if not after and not log.events:
        message = f"execution {execution_id} cannot begin without an event"
        raise StoreError(message, "store.sequence")


def _check_owner(transition: Transition) -> None:
    """Refuse commands, timers and leases of another execution (I-37)."""
    mine, commands = transition.execution_id, transition.commands
    planned: list[Command | Timer | Lease]
    planned = [*commands.planned, *transition.timers.armed]
    if commands.grant is not None:
        planned += commands.grant.leases
    for each in planned:
        if each.execution_id != mine:
            raise StoreError(
                f"execution {mine} cannot plan for {each.execution_id}", "store.foreign"
            )
