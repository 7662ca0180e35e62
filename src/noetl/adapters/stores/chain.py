"""The hash chain of a log: each event carries what came before it (I-04)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

FIRST = b""
"""What the first event of an execution is linked to."""


class Damage(msgspec.Struct, frozen=True):
    """Where a log stops being what was recorded."""

    seq: int
    message: str
    kind: str = "log.hash_mismatch"


def link(previous: bytes, body: bytes) -> bytes:
    """The hash of an event, given that of the event before it."""
    return sha256(previous + body).digest()


def first_damage(
    rows: Iterable[tuple[int, bytes, bytes]], last_seq: int, last_hash: bytes
) -> Damage | None:
    """Walk ``(seq, hash, body)`` in order up to the position that is on record."""
    expected, previous = 1, FIRST
    for seq, stored, body in rows:
        if seq != expected:
            return Damage(expected, f"event {expected} is missing")
        if seq > last_seq:
            return Damage(seq, f"event {seq} comes after the last on record")
        # Whoever edits a row by hand may leave text in it.
        if not isinstance(body, bytes) or link(previous, body) != stored:
            return Damage(seq, f"event {seq} is not what was recorded")
        previous = stored
        expected += 1
    if expected <= last_seq:
        return Damage(expected, f"event {expected} is missing, of {last_seq}")
    if previous != last_hash:
        return Damage(last_seq, f"event {last_seq} is not the one on record")
    return None
