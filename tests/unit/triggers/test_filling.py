"""Backfills: every missing slot once, never more at a time than allowed."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.triggers.cron import Cron
from noetl.triggers.filling import (
    Flight,
    Progress,
    candidates,
    is_over,
    land,
    moment_in,
    take,
)
from noetl.triggers.slots import first

HOURLY = Cron("0 * * * *", "UTC")
HOUR = 3600.0


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 130),
    st.sets(st.integers(0, 129)),
    st.integers(1, 7),
    st.integers(),
)
def test_the_missing_slots_are_taken_once_each(total, there, at_once, seed) -> None:
    """In any order of ends: nothing twice, nothing left out, within the bound."""
    dice = random.Random(seed)
    since, until = 0.0, total * HOUR
    present = frozenset(number * HOUR for number in there if number < total)
    progress, begun = Progress(cursor=since), []
    while not is_over(progress, until):
        before = {flight.slot for flight in progress.flights}
        slots = candidates(HOURLY, progress, until)
        progress = take(progress, slots, present, at_once, until)
        begun += [f.slot for f in progress.flights if f.slot not in before]
        assert len(progress.flights) <= at_once
        flights = tuple(Flight(f.slot, str(f.slot)) for f in progress.flights)
        progress = msgspec.structs.replace(progress, flights=flights)
        ended = [f for f in progress.flights if dice.random() < 0.5]
        progress = land(progress, {str(f.slot): "completed" for f in ended})

    assert begun == [s for s in first(HOURLY, since, until, 999) if s not in present]
    assert (progress.present, progress.started) == (len(present), len(begun))
    assert progress.completed == len(begun)


def test_what_has_ended_is_counted_by_how() -> None:
    flights = (Flight(1.0, "a"), Flight(2.0, "b"), Flight(3.0), Flight(4.0, "d"))

    landed = land(
        Progress(cursor=9.0, flights=flights, completed=5),
        {"a": "completed", "b": "failed", "x": "completed"},
    )

    assert landed.flights == (Flight(3.0), Flight(4.0, "d"))
    assert (landed.completed, landed.failed) == (6, 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-29", "2026-03-28T23:00:00+00:00"),
        ("2026-07-01T06:00", "2026-07-01T04:00:00+00:00"),
        ("2026-07-01T06:00:00Z", "2026-07-01T06:00:00+00:00"),
    ],
)
def test_a_day_is_one_of_the_zone(text: str, moment: str) -> None:
    berlin = Cron("0 2 * * *", "Europe/Berlin")

    assert moment_in(berlin, text) == moment_in(berlin, moment)


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "9" * 99])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        moment_in(HOURLY, text)
