"""Encoding of transitions: checked, and each event encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from noetl.engine.event_codec import pack, unpack
from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import Command, Damage, Lease, Summary, Timer, Transition
from noetl.types import JSON

_encoder = msgspec.json.Encoder()
_summaries = msgspec.json.Decoder(Summary)


class Encoded(msgspec.Struct, frozen=True):
    """A checked transition with its events and its summary as they are stored."""

    transition: Transition
    bodies: Sequence[bytes]
    summary: str

    @property
    def after(self) -> int:
        """Position at which the stored log must be; 0 also for a fork, which brings
        its history along."""
        return self.transition.log.after - len(self.transition.log.history)


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


def decode(bodies: Iterable[bytes], execution_id: str, after: int) -> list[Event]:
    """Decode the events that follow the position ``after`` of a log."""
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
    """Decode a line of a listing; a damaged line is shown as quarantined, so that it
    does not hide the others."""
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
    return Encoded(transition, bodies, summary)


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


FIRST = b""
"""Hash that precedes the first event of an execution."""


def link(previous: bytes, body: bytes) -> bytes:
    """Return the hash of an event, given the hash of the event before it."""
    return sha256(previous + body).digest()


def first_damage(
    rows: Iterable[tuple[int, bytes, bytes]], last_seq: int, last_hash: bytes
) -> Damage | None:
    """Check rows ``(seq, hash, body)`` in order, up to the recorded position."""
    expected, previous = 1, FIRST
    for seq, stored, body in rows:
        if seq != expected:
            return Damage(expected, f"event {expected} is missing")
        if seq > last_seq:
            return Damage(seq, f"event {seq} comes after the last on record")
        # A row that was edited by hand may hold text.
        if not isinstance(body, bytes) or link(previous, body) != stored:
            return Damage(seq, f"event {seq} is not what was recorded")
        previous = stored
        expected += 1
    if expected <= last_seq:
        return Damage(expected, f"event {expected} is missing, of {last_seq}")
    if previous != last_hash:
        return Damage(last_seq, f"event {last_seq} is not the one on record")
    return None
