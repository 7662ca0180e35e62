"""How much of a long campaign a run does: a share of time, or all of it.

``make test`` gives each campaign some seconds and a seed of the source (``seeds``), and
prints how far it came. ``make nightly`` sets ``CAMPAIGN=full``, and every case runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("CAMPAIGN") == "full"


def within(seconds: float, cases: Iterable[T], least: int = 1) -> Iterator[T]:
    """Yield cases until the seconds are used up, but at least ``least`` of them."""
    end = time.monotonic() + seconds
    for number, case in enumerate(cases):
        if not FULL and number >= least and time.monotonic() >= end:
            return
        yield case
