"""Rules of leasing that every store follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from noetl.engine.state import ExecutionStatus
from noetl.ports import Timer

GRACE = 2.0
"""Seconds after its expiry in which a lease is not given to somebody else.

A worker stops by itself before the expiry; this is for the difference of the clocks.
"""

OPEN: frozenset[ExecutionStatus] = frozenset({"running", "waiting"})
"""Executions whose commands are offered (I-32, I-33)."""

OVER: frozenset[ExecutionStatus] = frozenset({"completed", "failed", "cancelled"})
"""Executions whose commands will never be offered again."""

T = TypeVar("T")


def outlives(timer: Timer) -> bool:
    """Whether it stays when its execution is over: somebody must hear of that."""
    return timer.kind == "finished"


def deal(hands: Sequence[Sequence[T]], slots: int) -> list[T]:
    """One from each in turn, until ``slots`` are taken or nothing is left."""
    dealt: list[T] = []
    for turn in range(max(map(len, hands), default=0)):
        for hand in hands:
            if len(dealt) == slots:
                return dealt
            if turn < len(hand):
                dealt.append(hand[turn])
    return dealt
