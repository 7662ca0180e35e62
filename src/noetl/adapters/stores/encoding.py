"""Transitions as bytes: an event is encoded once, whatever happens to it later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.records import pack, unpack
from noetl.errors import StoreError
from noetl.ports import Command, Lease, Summary, Timer, Transition
from noetl.types import JSON

_encoder = msgspec.json.Encoder()
_summaries = msgspec.json.Decoder(Summary)


class Encoded(msgspec.Struct, frozen=True):
    """A transition whose events are ready to be stored."""

    transition: Transition
    bodies: Sequence[bytes]
    summary: str

    @property
    def after(self) -> int:
        """Where the log must be: its own history comes with a new one."""
        return self.transition.after - len(self.transition.history)


def encode(transitions: Sequence[Transition]) -> list[Encoded]:
    """Raises ``StoreError`` for what no log may hold; nobody else's commit fails."""
    keys = [each.place.key for each in transitions if each.place is not None]
    if len(set(keys)) < len(keys):
        message = "a group takes or gives back places of one key once"
        raise StoreError(message, "store.foreign")
    return [_encode(transition) for transition in transitions]


def decode(bodies: Iterable[bytes], execution_id: str, after: int) -> list[Event]:
    """What follows the position ``after`` in the log of an execution."""
    try:
        numbered = enumerate(bodies, after + 1)
        return [unpack(body, execution_id, seq) for seq, body in numbered]
    except (ValueError, TypeError) as error:  # a row may hold anything, also text
        message = f"an event of {execution_id} cannot be decoded: {error}"
        raise StoreError(message, "store.corrupt") from error


def decode_summary(text: str) -> Summary:
    try:
        return _summaries.decode(text)
    except msgspec.DecodeError as error:
        message = f"a summary cannot be decoded: {error}"
        raise StoreError(message, "store.corrupt") from error


def read_line(execution_id: str, text: str) -> Summary:
    """A line of a listing: one that cannot be read must not hide the others."""
    try:
        return decode_summary(text)
    except StoreError as error:
        why: dict[str, JSON] = {"kind": error.kind, "message": str(error)}
        return Summary(execution_id, "quarantined", {}, "", error=why)


def encode_summary(summary: Summary) -> str:
    return _encoder.encode(summary).decode()


def _encode(transition: Transition) -> Encoded:
    _check_sequence(transition)
    _check_owner(transition)
    try:
        bodies = transition.bodies
        if bodies is None:
            bodies = [pack(event) for event in transition.events]
        summary = encode_summary(transition.summary)
    except (TypeError, ValueError) as error:  # among them: lone surrogates
        message = f"execution {transition.execution_id}: not JSON: {error}"
        raise StoreError(message, "store.encoding") from error
    if transition.history:
        bodies = [*transition.history, *bodies]
    return Encoded(transition, bodies, summary)


def _check_sequence(transition: Transition) -> None:
    """``seq`` is given by whoever decides; a gap would be there for ever (I-04)."""
    execution_id, after = transition.execution_id, transition.after
    for seq, event in enumerate(transition.events, after + 1):
        if event.seq != seq or event.execution_id != execution_id:
            raise StoreError(
                f"execution {execution_id}: expected its event {seq}, "
                f"got event {event.seq} of {event.execution_id}",
                "store.sequence",
            )
    if transition.history and len(transition.history) != after:
        kept = len(transition.history)
        message = f"execution {execution_id} begins with {kept} events, not {after}"
        raise StoreError(message, "store.sequence")
    if not after and not transition.events:
        message = f"execution {execution_id} cannot begin without an event"
        raise StoreError(message, "store.sequence")


def _check_owner(transition: Transition) -> None:
    """No execution makes anything due for another one (I-37)."""
    mine = transition.execution_id
    planned: list[Command | Timer | Lease] = [*transition.commands, *transition.timers]
    if transition.grant is not None:
        planned += transition.grant.leases
    for each in planned:
        if each.execution_id != mine:
            raise StoreError(
                f"execution {mine} cannot plan for {each.execution_id}", "store.foreign"
            )
