"""Due slots and backfills: every slot once, whenever they are asked for."""

from __future__ import annotations

import random
from datetime import datetime

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.triggers.backfill import Flight, Progress, candidates, is_over, land, take
from noetl.triggers.cron import Cron
from noetl.triggers.definition import Schedule
from noetl.triggers.slots import decide, first

HOURLY = Cron("0 * * * *", "UTC")
HOUR = 3600.0


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["*/3 * * * *", "*/10 * * * *", "0 2 * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from(["0", "90s", "1h"]),
    st.booleans(),
    st.lists(st.integers(1, 2_400), min_size=1, max_size=4),
)
def test_all_means_every_slot_once_and_in_order(
    cron: str, zone: str, jitter: str, overlap: bool, steps: list[int]
) -> None:
    """However often and when it is asked, as long as the bound is not reached.

    In Berlin the clock is put back while the last of the steps passes.
    """
    schedule = Schedule(
        cron=cron,
        zone=zone,
        jitter=jitter,
        catch_up="all",
        most=500,
        overlap=overlap,
    )
    start = datetime.fromisoformat("2026-10-24T23:30:00Z").timestamp()
    now, cursor = start, start
    found: list[float] = []
    for step in [*steps, 7200]:
        now += step
        while (due := decide("a", schedule, cursor, now)).slots:
            found += due.slots
            cursor = due.cursor
    once = decide("a", schedule, start, now)
    whole = [*once.slots]
    while not overlap and (once := decide("a", schedule, once.cursor, now)).slots:
        whole += once.slots

    assert found == sorted(set(found))
    assert found == whole


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 130),
    st.sets(st.integers(0, 129)),
    st.integers(1, 7),
    st.integers(),
)
def test_the_missing_slots_are_taken_once_each(
    total: int, there: set[int], at_once: int, seed: int
) -> None:
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
